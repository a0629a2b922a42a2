#include "daemon/session/runtime_dir.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace stoker::session {
namespace {

constexpr int kBacklog = 128;

Status FromErrno(const std::string& what, int error) {
  const Code code = error == EACCES || error == EPERM ? Code::kPermissionDenied : Code::kInternal;
  return Status(code, what + ": " + std::strerror(error));
}

std::string ReadPid(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  std::string pid(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid.empty() ? "unknown" : pid;
}

}  // namespace

Result<RuntimeDir> RuntimeDir::Take(const std::string& path, bool shared) {
  std::error_code error;
  if (std::filesystem::create_directories(path, error)) {
    if (chmod(path.c_str(), shared ? 0750 : 0700) != 0) return FromErrno("chmod " + path, errno);
  }
  if (error) return FromErrno("runtime directory " + path, error.value());

  RuntimeDir dir;
  dir.path_ = path;
  const std::string lock_path = path + "/stokerd.lock";
  dir.lock_ = shm::Fd(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!dir.lock_.valid()) return FromErrno("lock file " + lock_path, errno);
  if (flock(dir.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno("lock file " + lock_path, errno);
    return Status(Code::kFailedPrecondition, "a daemon already runs on " + path + " (pid " +
                                                 ReadPid(dir.lock_.get()) +
                                                 "); stop it, or choose another --runtime-dir");
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(dir.lock_.get(), 0) != 0 ||
      pwrite(dir.lock_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return FromErrno("lock file " + lock_path, errno);
  }
  return dir;
}

RuntimeDir::~RuntimeDir() {
  for (const auto& socket : sockets_) unlink(socket.c_str());
}

Result<shm::Fd> RuntimeDir::Listen(const std::string& name, int type, unsigned mode,
                                   const std::string& group) {
  const std::string path = path_ + "/" + name;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, path + ": a socket's path is at most " +
                                              std::to_string(sizeof(address.sun_path) - 1) +
                                              " bytes; choose a shorter --runtime-dir");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  struct stat existing;
  if (lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return Status(Code::kAlreadyExists, path +
                                              " exists and is not a socket; it was left alone. "
                                              "Move it away, or choose another --runtime-dir");
    }
    // The lock is ours, so nobody listens here: the socket is stale.
    if (unlink(path.c_str()) != 0) return FromErrno("stale socket " + path, errno);
  }

  shm::Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return FromErrno("socket", errno);
  // Nobody can connect before listen(), so mode and group are right from the first client on.
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return FromErrno("bind " + path, errno);
  }
  sockets_.push_back(path);
  if (chmod(path.c_str(), mode & 0770) != 0) return FromErrno("chmod " + path, errno);
  if (!group.empty()) {
    const struct group* entry = getgrnam(group.c_str());
    if (entry == nullptr) {
      return Status(Code::kInvalidArgument, "access.group: no group \"" + group + "\"");
    }
    if (chown(path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0) {
      return FromErrno("chown " + path + " to group " + group, errno);
    }
  }
  if (listen(fd.get(), kBacklog) != 0) return FromErrno("listen " + path, errno);
  return fd;
}

}  // namespace stoker::session
