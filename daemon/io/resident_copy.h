// ResidentCopy: the (inflated) bytes of one shard in memory, filled a segment at a time.
//
// Address space is taken for the whole shard at once and its pages come when they are written, so a
// record's place is its offset and nothing is looked up. Large pages are asked for: reading in
// random order otherwise costs as much in address translation as in memory.
//
// Ownership: owns its mapping. Thread-safety: any thread; whoever claims a segment writes it alone,
//   and Settle() makes what it wrote visible to who sees kReady.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/status.h"

namespace stoker::io {

class ResidentCopy {
 public:
  enum class State : std::uint8_t {
    kAbsent,
    kFilling,
    kReady,
    kBroken,  // could not be filled: read the file itself
  };

  // kResourceExhausted where the address space is not to be had.
  static Result<std::unique_ptr<ResidentCopy>> Make(std::uint64_t bytes, std::uint64_t segments);
  ~ResidentCopy();
  ResidentCopy(const ResidentCopy&) = delete;
  ResidentCopy& operator=(const ResidentCopy&) = delete;

  std::byte* data() const { return data_; }
  State state(std::uint64_t segment) const {
    return states_[segment].load(std::memory_order_acquire);
  }
  // Makes an absent segment the caller's to fill. False where it is no longer absent.
  bool Claim(std::uint64_t segment);
  // Ends a claim. `bytes` were written.
  void Settle(std::uint64_t segment, State state, std::uint64_t bytes);
  // Written so far.
  std::uint64_t bytes() const { return filled_.load(std::memory_order_relaxed); }

 private:
  ResidentCopy(std::byte* data, std::uint64_t bytes, std::uint64_t segments)
      : data_(data), bytes_(bytes), states_(segments) {}

  std::byte* const data_;
  const std::uint64_t bytes_;
  std::vector<std::atomic<State>> states_;
  std::atomic<std::uint64_t> filled_{0};
};

}  // namespace stoker::io
