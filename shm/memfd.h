// Anonymous shared memory: made and sealed by the daemon, passed by descriptor, named nowhere.
//
// Every memfd is close-on-exec, mode 0600, not executable where the kernel knows that, and sealed
// against shrinking, growing and further seals, so that no holder can take pages away from
// another (a truncated mapping is a SIGBUS).
//
// Errors: an invalid Fd or a null mapping, with errno.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/fd.h"

namespace stoker::shm {

// What happens to the seals next. kFinal: no further seal. kReadOnlyLater: ReopenReadOnly() may
// still add FUTURE_WRITE, and then closes the list.
enum class Seals { kFinal, kReadOnlyLater };

// A memfd of `bytes` with the seals above.
Fd MakeMemfd(const char* name, std::uint64_t bytes, Seals seals);

// A read-only descriptor of the same memory. The memory is sealed FUTURE_WRITE first: mappings
// that can write and exist already go on, no new one can be made through any descriptor.
Fd ReopenReadOnly(int memfd);

// The size of the file behind `fd`, or 0.
std::uint64_t FileBytes(int fd);

// A shared mapping; unmapped when destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : address_(other.address_), bytes_(other.bytes_) {
    other.address_ = nullptr;
    other.bytes_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { Unmap(); }

  // Maps all `bytes` of `fd`.
  static Mapping Map(int fd, std::uint64_t bytes, bool writable);

  bool valid() const { return address_ != nullptr; }
  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::uint64_t bytes() const { return bytes_; }
  void Unmap();
  // Forgets the mapping without a word to the kernel: for a child of fork that did not inherit it,
  // where something else may lie at its address by now.
  void Abandon() {
    address_ = nullptr;
    bytes_ = 0;
  }

 private:
  void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace stoker::shm
