// Budget: the daemon's memory, promised before it is used.
//
// A stream reserves what its arenas, windows, caches, scratch and indexes can need when it opens,
// and each lane when it is made. A reservation is checked under one lock against the daemon's own
// budget and against what the machine and its cgroups have free now, less what was reserved
// before but not yet touched. Nothing is allocated here: the kernel kills who goes over a
// cgroup's limit, so the only safe check is this one.
//
// Thread-safety: any thread. Errors: kResourceExhausted naming the tightest limit, with numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "daemon/base/machine.h"
#include "daemon/base/status.h"

namespace stoker::stream {

class Budget;

// Gives its bytes back when destroyed. Movable.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Budget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  std::uint64_t bytes() const { return bytes_; }
  // Says that `bytes` of it have been touched: they now show in the machine's own figures.
  void Touched(std::uint64_t bytes);
  void Release();

 private:
  Budget* budget_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t touched_ = 0;
};

class Budget {
 public:
  // `free_memory` is a seam for tests.
  explicit Budget(
      std::uint64_t limit_bytes,
      std::function<MemoryAllowance()> free_memory = [] { return FreeMemory(); })
      : limit_(limit_bytes), free_memory_(std::move(free_memory)) {}

  // `what` begins the refusal: "stream \"x\": arena of 4 slots".
  Result<Reservation> Reserve(std::uint64_t bytes, const std::string& what);

  // Counts memory that is in use already, whatever the limits say.
  Reservation Hold(std::uint64_t bytes);

  std::uint64_t limit() const { return limit_; }
  std::uint64_t used() const;
  // What could be reserved now, and which limit says so.
  MemoryAllowance Free() const;

 private:
  friend class Reservation;

  MemoryAllowance FreeLocked() const;

  const std::uint64_t limit_;
  const std::function<MemoryAllowance()> free_memory_;
  mutable std::mutex mutex_;
  std::uint64_t reserved_ = 0;
  std::uint64_t untouched_ = 0;
};

}  // namespace stoker::stream
