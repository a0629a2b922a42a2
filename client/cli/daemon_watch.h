// DaemonWatch: what a daemon costs, seen from outside.
//
// Thread-safety: plain values. Blocking: reads small files of /proc.
// Errors: kUnavailable where no daemon listens; kNotFound where its process cannot be seen from
//   here, as from another container, or where its socket was made by another process.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/base/status.h"

namespace stoker::cli {

class DaemonWatch {
 public:
  // The daemon that listens on `socket_path`, told by the socket's own word about its peer.
  static Result<DaemonWatch> Of(const std::string& socket_path);

  // The daemon that says it is `pid`: right too where a service manager made the socket.
  static DaemonWatch OfPid(pid_t pid) { return DaemonWatch(pid); }

  pid_t pid() const { return pid_; }
  // User and system time that all its threads have used, to the kernel's tick.
  Result<double> CpuSeconds() const;

 private:
  explicit DaemonWatch(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

}  // namespace stoker::cli
