// Stream and Batch as Python sees them, below stoker's own classes.
//
// Ownership: a Stream closes its handle with itself; batches outlive it.
// Thread-safety: calls on one stream take turns; close() ends a wait in another thread.
// Blocking: Next, without the GIL; Ctrl-C ends it between two looks at the ring, so that no batch
//   is lost. In a child of fork every call fails at once.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "client/python/src/batch_ref.h"
#include "client/python/src/tensor.h"
#include "stoker/stoker.h"

namespace stoker::python {

class Batch {
 public:
  explicit Batch(BatchRef batch) : batch_(std::move(batch)) {}
  // Throws KeyError where there is no such tensor.
  Tensor Find(const std::string& name) const;
  nanobind::list Names() const;
  bool Has(const std::string& name) const;
  stoker_batch_info Info() const;
  std::string Token() const;
  void Release() { batch_ = BatchRef(); }
  bool released() const { return batch_.get() == nullptr; }

 private:
  stoker_batch* Held() const;
  BatchRef batch_;
};

class Stream {
 public:
  explicit Stream(stoker_stream* stream) : stream_(stream) {}
  ~Stream() { stoker_stream_close(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Nothing at an epoch's end. A negative timeout waits for ever.
  std::optional<Batch> Next(double timeout_seconds);
  stoker_stream_info RawInfo();
  nanobind::dict Info();
  std::string Token();
  void Close();
  bool closed() const { return closing_; }

 private:
  // Takes the turn; throws where the stream is closed or was inherited by a fork.
  std::unique_lock<std::timed_mutex> Turn();

  const pid_t owner_ = getpid();
  std::timed_mutex turn_;
  std::atomic<bool> closing_{false};
  stoker_stream* stream_;
};

void DefineStream(nanobind::module_& module);

}  // namespace stoker::python
