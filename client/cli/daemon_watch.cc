#include "client/cli/daemon_watch.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "shm/fd.h"

namespace stoker::cli {

Result<DaemonWatch> DaemonWatch::Of(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, socket_path + ": the path of a socket is too long");
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size());
  const shm::Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Status(Code::kUnavailable,
                  "no daemon answers on " + socket_path + ": " + std::strerror(errno));
  }
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid <= 0) {
    return Status(Code::kNotFound, "the daemon's process cannot be seen from here");
  }
  // A socket that systemd made carries systemd's number.
  std::ifstream in("/proc/" + std::to_string(peer.pid) + "/comm");
  std::string name;
  std::getline(in, name);
  if (name != "stokerd") {
    return Status(Code::kNotFound, "process " + std::to_string(peer.pid) +
                                       ", which made the daemon's socket, is not stokerd");
  }
  return DaemonWatch(peer.pid);
}

Result<double> DaemonWatch::CpuSeconds() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/stat";
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  // The second field is a name in brackets, which may hold anything.
  const auto name_end = text.rfind(')');
  unsigned long long user = 0;
  unsigned long long system = 0;
  // Fields 14 and 15; the third is the first behind the name.
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1,
                  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user, &system) != 2) {
    return Status(Code::kNotFound, path + ": cannot be read; the daemon is gone");
  }
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace stoker::cli
