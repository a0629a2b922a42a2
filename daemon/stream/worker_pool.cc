#include "daemon/stream/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <string>

namespace stoker::stream {
namespace {

constexpr int kNice = 10;

// A worker's state for each program it has worked on.
class RowWorkers {
 public:
  pipeline::RowWorker* For(const std::shared_ptr<const pipeline::RowProgram>& program) {
    auto& worker = workers_[program.get()];
    if (worker == nullptr) worker = std::make_unique<pipeline::RowWorker>(program);
    return worker.get();
  }
  // Forgets the programs that no lane runs any more.
  void Keep(const std::vector<std::shared_ptr<Lane>>& lanes) {
    std::erase_if(workers_, [&lanes](const auto& entry) {
      return std::none_of(lanes.begin(), lanes.end(), [&entry](const auto& lane) {
        return lane->program().get() == entry.first;
      });
    });
  }

 private:
  std::map<const pipeline::RowProgram*, std::unique_ptr<pipeline::RowWorker>> workers_;
};

}  // namespace

WorkerPool::WorkerPool(unsigned workers)
    : workers_(workers), lanes_(std::make_shared<const Lanes>()) {
  for (unsigned i = 0; i < workers; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) { Run(stop, i); });
  }
}

void WorkerPool::Stop() {
  for (auto& thread : threads_) thread.request_stop();
  Wake();
  threads_.clear();
}

void WorkerPool::Add(std::shared_ptr<Lane> lane) {
  {
    std::lock_guard lock(mutex_);
    auto lanes = std::make_shared<Lanes>(*lanes_);
    lanes->push_back(std::move(lane));
    lanes_ = std::move(lanes);
  }
  Wake();
}

void WorkerPool::Remove(const Lane* lane) {
  std::lock_guard lock(mutex_);
  auto lanes = std::make_shared<Lanes>(*lanes_);
  std::erase_if(*lanes, [lane](const auto& other) { return other.get() == lane; });
  lanes_ = std::move(lanes);
  ++removals_;
}

void WorkerPool::Wake() {
  std::lock_guard lock(mutex_);
  ++calls_;
  if (sleeping_ > 0) wake_.notify_all();
}

std::shared_ptr<const WorkerPool::Lanes> WorkerPool::lanes() const {
  std::lock_guard lock(mutex_);
  return lanes_;
}

void WorkerPool::Run(std::stop_token stop, unsigned number) {
  pthread_setname_np(pthread_self(), ("worker-" + std::to_string(number)).c_str());
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
  RowWorkers row_workers;
  std::uint64_t seen_removals = 0;
  std::vector<std::pair<int, std::size_t>> order;  // ready batches, place among the lanes

  // Takes and does one piece of work, if there is any.
  const auto work_once = [&](const Lanes& lanes) {
    order.clear();
    for (std::size_t i = 0; i < lanes.size(); ++i) order.emplace_back(lanes[i]->ready_batches(), i);
    std::sort(order.begin(), order.end());
    for (const auto& [ready, place] : order) {
      Lane::Work work;
      if (!lanes[place]->TakeWork(&work)) continue;
      lanes[place]->Do(work, row_workers.For(lanes[place]->program()));
      return true;
    }
    return false;
  };

  while (!stop.stop_requested()) {
    std::uint64_t calls = 0;
    std::uint64_t removals = 0;
    {
      std::lock_guard lock(mutex_);
      calls = calls_;
      removals = removals_;
    }
    {
      const auto lanes = this->lanes();
      if (std::exchange(seen_removals, removals) != removals) row_workers.Keep(*lanes);
      if (work_once(*lanes)) continue;
      for (const auto& lane : *lanes) lane->ArmReturns();
      if (work_once(*lanes)) continue;
    }
    std::unique_lock lock(mutex_);
    ++sleeping_;
    wake_.wait(lock, stop, [&] { return calls_ != calls; });
    --sleeping_;
  }
}

}  // namespace stoker::stream
