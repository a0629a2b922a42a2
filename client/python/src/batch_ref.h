// BatchRef: one counted hold on a batch. The slot goes back with the last of them, whether a batch,
// a tensor, a buffer or a DLPack capsule has it.
//
// Thread-safety: as shared_ptr. Blocking: never. Needs no GIL.
#pragma once

#include <utility>

#include "stoker/stoker.h"

namespace stoker::python {

class BatchRef {
 public:
  BatchRef() = default;
  // Takes over the caller's hold.
  explicit BatchRef(stoker_batch* batch) : batch_(batch) {}
  BatchRef(const BatchRef& other) : batch_(other.batch_) { stoker_batch_retain(batch_); }
  BatchRef(BatchRef&& other) noexcept : batch_(std::exchange(other.batch_, nullptr)) {}
  BatchRef& operator=(BatchRef other) noexcept {
    std::swap(batch_, other.batch_);
    return *this;
  }
  ~BatchRef() { stoker_batch_release(batch_); }

  stoker_batch* get() const { return batch_; }

 private:
  stoker_batch* batch_ = nullptr;
};

}  // namespace stoker::python
