// WorkerPool: the threads that read, parse and place rows, for all lanes of all streams.
//
// A free worker takes a run from the lane whose consumers are closest to starving. Workers run at
// nice +10: they must not delay the trainers' own threads. When there is no work anywhere they
// ask the clients to ring when they return a slot, look once more, and sleep.
//
// Thread-safety: any thread. Blocking: Stop() waits for the runs in hand (at most one a worker).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/stream/lane.h"

namespace stoker::stream {

class WorkerPool {
 public:
  explicit WorkerPool(unsigned workers);
  ~WorkerPool() { Stop(); }

  void Add(std::shared_ptr<Lane> lane);
  void Remove(const Lane* lane);
  // Says that there may be work. Cheap; any thread, also under a lane's lock.
  void Wake();
  // Lets the threads end after the run they hold.
  void Stop();

  unsigned workers() const { return workers_; }

 private:
  using Lanes = std::vector<std::shared_ptr<Lane>>;

  void Run(std::stop_token stop, unsigned number);
  std::shared_ptr<const Lanes> lanes() const;

  const unsigned workers_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::uint64_t calls_ = 0;  // of Wake(), under mutex_
  unsigned sleeping_ = 0;
  std::uint64_t removals_ = 0;
  std::shared_ptr<const Lanes> lanes_;
  std::vector<std::jthread> threads_;
};

}  // namespace stoker::stream
