#include "shm/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace stoker::shm {

Fd MakeMemfd(const char* name, std::uint64_t bytes, Seals seals) {
  // Kernels before 6.3 do not know NOEXEC_SEAL.
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd = Fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fd;
  int add = F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals == Seals::kFinal) add |= F_SEAL_SEAL;
  if (fchmod(fd.get(), 0600) != 0 || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, add) != 0) {
    const int error = errno;
    fd.Close();
    errno = error;
  }
  return fd;
}

Fd ReopenReadOnly(int memfd) {
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0) return Fd();
  if ((seals & F_SEAL_FUTURE_WRITE) == 0 &&
      fcntl(memfd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return Fd();
  }
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
  return Fd(open(path, O_RDONLY | O_CLOEXEC));
}

std::uint64_t FileBytes(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_size > 0 ? static_cast<std::uint64_t>(status.st_size)
                                                       : 0;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Unmap();
    address_ = other.address_;
    bytes_ = other.bytes_;
    other.address_ = nullptr;
    other.bytes_ = 0;
  }
  return *this;
}

Mapping Mapping::Map(int fd, std::uint64_t bytes, bool writable) {
  Mapping mapping;
  void* address =
      mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return mapping;
  mapping.address_ = address;
  mapping.bytes_ = bytes;
  return mapping;
}

void Mapping::Unmap() {
  if (address_ != nullptr) munmap(address_, bytes_);
  address_ = nullptr;
  bytes_ = 0;
}

}  // namespace stoker::shm
