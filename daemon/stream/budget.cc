#include "daemon/stream/budget.h"

#include <algorithm>
#include <utility>

namespace stoker::stream {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    touched_ = std::exchange(other.touched_, 0);
  }
  return *this;
}

void Reservation::Touched(std::uint64_t bytes) {
  if (budget_ == nullptr) return;
  std::lock_guard lock(budget_->mutex_);
  const std::uint64_t more = std::min(bytes, bytes_ - touched_);
  touched_ += more;
  budget_->untouched_ -= more;
}

void Reservation::Release() {
  if (budget_ == nullptr) return;
  std::lock_guard lock(budget_->mutex_);
  budget_->reserved_ -= bytes_;
  budget_->untouched_ -= bytes_ - touched_;
  budget_ = nullptr;
}

Result<Reservation> Budget::Reserve(std::uint64_t bytes, const std::string& what) {
  std::lock_guard lock(mutex_);
  const MemoryAllowance free = FreeLocked();
  if (bytes > free.free_bytes) {
    return Status(Code::kResourceExhausted,
                  what + " needs " + std::to_string(bytes) + " bytes, " +
                      std::to_string(free.free_bytes) + " are free under " + free.limit +
                      " (limit " + std::to_string(limit_) + ", reserved " +
                      std::to_string(reserved_) +
                      "); make batches or delivery.slots smaller, close a stream, or raise "
                      "memory_bytes");
  }
  reserved_ += bytes;
  untouched_ += bytes;
  return Reservation(this, bytes);
}

Reservation Budget::Hold(std::uint64_t bytes) {
  Reservation held(this, bytes);
  {
    std::lock_guard lock(mutex_);
    reserved_ += bytes;
    untouched_ += bytes;
  }
  held.Touched(bytes);
  return held;
}

std::uint64_t Budget::used() const {
  std::lock_guard lock(mutex_);
  return reserved_;
}

MemoryAllowance Budget::Free() const {
  std::lock_guard lock(mutex_);
  return FreeLocked();
}

MemoryAllowance Budget::FreeLocked() const {
  MemoryAllowance own{limit_ > reserved_ ? limit_ - reserved_ : 0, "memory_bytes"};
  MemoryAllowance machine = free_memory_();
  machine.free_bytes -= std::min(machine.free_bytes, untouched_);
  return machine.free_bytes < own.free_bytes ? machine : own;
}

}  // namespace stoker::stream
