#include "daemon/io/byte_source.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stoker::io {
namespace {

// Without O_NONBLOCK the open of a named pipe would wait for a writer. Files do not heed it.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EACCES:
    case EPERM:
    case EXDEV:
      return Code::kPermissionDenied;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kResourceExhausted;
    case EIO:
      return Code::kDataLoss;
    default:
      return Code::kInvalidArgument;
  }
}

Status OpenError(const std::string& path, int error) {
  const std::string why = error == EXDEV ? "leads out of its data_root" : std::strerror(error);
  return Status(CodeOf(error), path + ": cannot be opened: " + why + " (the daemon runs as uid " +
                                   std::to_string(geteuid()) + ", gid " +
                                   std::to_string(getegid()) + ")");
}

int OpenBeneath(const std::string& root, const std::string& path) {
  shm::Fd folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return -1;
  open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string below = path.substr(root == "/" ? 1 : root.size() + 1);
  return static_cast<int>(syscall(SYS_openat2, folder.get(), below.c_str(), &how, sizeof(how)));
}

}  // namespace

Result<FileSource> FileSource::Open(const std::string& path, const std::string& root) {
  shm::Fd fd(root.empty() ? open(path.c_str(), kOpenFlags) : OpenBeneath(root, path));
  if (!fd.valid()) return OpenError(path, errno);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return OpenError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Status(Code::kInvalidArgument, path + ": is not a regular file");
  }
  return FileSource(std::move(fd));
}

Result<std::size_t> FileSource::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status(Code::kDataLoss, std::string("pread: ") + std::strerror(errno));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

Result<FileIdentity> FileSource::Identity() const {
  struct stat status;
  if (fstat(fd_.get(), &status) != 0) {
    return Status(Code::kDataLoss, std::string("fstat: ") + std::strerror(errno));
  }
  FileIdentity identity;
  identity.size = static_cast<std::uint64_t>(status.st_size);
  identity.mtime_ns = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1000000000u +
                      static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  identity.inode = status.st_ino;
  identity.device = status.st_dev;
  return identity;
}

}  // namespace stoker::io
