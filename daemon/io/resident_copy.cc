#include "daemon/io/resident_copy.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace stoker::io {

Result<std::unique_ptr<ResidentCopy>> ResidentCopy::Make(std::uint64_t bytes,
                                                         std::uint64_t segments) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return Status(Code::kResourceExhausted, "a resident copy of " + std::to_string(bytes) +
                                                " bytes: " + std::strerror(errno));
  }
  madvise(at, bytes, MADV_HUGEPAGE);  // where the kernel has none, small ones do
  return std::unique_ptr<ResidentCopy>(
      new ResidentCopy(static_cast<std::byte*>(at), bytes, segments));
}

ResidentCopy::~ResidentCopy() { munmap(data_, bytes_); }

bool ResidentCopy::Claim(std::uint64_t segment) {
  State absent = State::kAbsent;
  return states_[segment].compare_exchange_strong(absent, State::kFilling,
                                                  std::memory_order_acquire);
}

void ResidentCopy::Settle(std::uint64_t segment, State state, std::uint64_t bytes) {
  filled_.fetch_add(bytes, std::memory_order_relaxed);
  states_[segment].store(state, std::memory_order_release);
}

}  // namespace stoker::io
