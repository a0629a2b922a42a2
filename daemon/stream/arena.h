// Arena: the anonymous memory of a lane's batches, one slot each.
//
// One memfd, sealed against shrinking and growing, mapped here for writing. Pages are accounted in
// the budget when the lane is made and reserved slot by slot before first use, so that a full
// machine is an error here and never a SIGBUS in a trainer.
//
// Ownership: owns the memfd and the mapping; clients get descriptors of their own and keep the
//   memory alive by themselves. Thread-safety: Reserve() for different slots from any thread.
// Errors: kResourceExhausted with errno text where the kernel has no memory.
#pragma once

#include <boost/interprocess/mapped_region.hpp>
#include <cstddef>
#include <cstdint>

#include "daemon/base/status.h"
#include "shm/memfd.h"

namespace stoker::stream {

class Arena {
 public:
  // An exclusive arena is shared writable with one client, another one read-only with several.
  static Result<Arena> Make(std::uint64_t slot_bytes, std::uint32_t slots, bool exclusive);

  std::byte* slot(std::uint32_t number) const {
    return static_cast<std::byte*>(region_.get_address()) + number * slot_bytes_;
  }
  std::uint64_t bytes() const { return slot_bytes_ * slots_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::uint32_t slots() const { return slots_; }

  // Takes the slot's pages from the kernel.
  Status Reserve(std::uint32_t slot);

  // A descriptor for a client: read-write where exclusive; else a read-only re-open, after which no
  // new writable mapping of the memory can be made.
  Result<shm::Fd> Share();

 private:
  std::uint64_t slot_bytes_ = 0;
  std::uint32_t slots_ = 0;
  bool exclusive_ = true;
  shm::Fd fd_;
  boost::interprocess::mapped_region region_;
};

}  // namespace stoker::stream
