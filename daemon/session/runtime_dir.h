// RuntimeDir: the folder of the two sockets, held under one lock file.
//
// Taking the lock is what makes a daemon the only one of its folder: sockets found there are
// stale and replaced only after it is held, so a live daemon's socket is never stolen, and of
// two that start at once exactly one goes on. The lock is the kernel's (flock): it goes with the
// process, however that ends.
//
// Ownership: owns the lock; unlinks the sockets it made when destroyed.
// Errors: kFailedPrecondition naming the pid of the daemon that runs; kAlreadyExists where
//   something that is not a socket stands at a socket's path (it is left alone); kPermissionDenied
//   and kInternal with path and errno text.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "shm/fd.h"

namespace stoker::session {

class RuntimeDir {
 public:
  // Makes the folder (0700; 0750 where `shared`) if it is missing and takes its lock.
  static Result<RuntimeDir> Take(const std::string& path, bool shared);

  RuntimeDir(RuntimeDir&&) = default;
  RuntimeDir& operator=(RuntimeDir&&) = default;
  ~RuntimeDir();

  const std::string& path() const { return path_; }

  // Listens on `name` in the folder. `type` is SOCK_STREAM or SOCK_SEQPACKET; the socket file has
  // `mode` and, where not empty, `group` before the first client can connect.
  Result<shm::Fd> Listen(const std::string& name, int type, unsigned mode,
                         const std::string& group);

 private:
  RuntimeDir() = default;

  std::string path_;
  shm::Fd lock_;
  std::vector<std::string> sockets_;
};

}  // namespace stoker::session
