#include "daemon/main/service.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace stoker {
namespace {

Status Check(int fd, const std::string& name, int type, const char* type_name) {
  if (sd_is_socket(fd, AF_UNIX, type, 1) > 0) return Status();
  return Status(Code::kInvalidArgument, "the inherited socket \"" + name +
                                            "\" is not a listening unix socket of type " +
                                            type_name + "; mend the socket unit");
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Result<InheritedSockets> TakeInheritedSockets() {
  InheritedSockets sockets;
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(1, &names);
  Status status;
  for (int i = 0; i < count; ++i) {
    shm::Fd fd(SD_LISTEN_FDS_START + i);
    const std::string name = names[i];
    const bool attach = name == "attach";
    shm::Fd& place = attach ? sockets.attach : sockets.control;
    if (!attach && name != "control") {
      status = Status(Code::kInvalidArgument, "an inherited socket is named \"" + name +
                                                  "\"; FileDescriptorName= is attach or control");
    } else if (place.valid()) {
      status = Status(Code::kInvalidArgument, "two inherited sockets are named " + name);
    } else if (status.ok()) {
      status = attach ? Check(fd.get(), name, SOCK_SEQPACKET, "SOCK_SEQPACKET")
                      : Check(fd.get(), name, SOCK_STREAM, "SOCK_STREAM");
    }
    // Ours are never waited on but by poll().
    fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    if (status.ok()) place = std::move(fd);
    std::free(names[i]);
  }
  std::free(names);
  if (!status.ok()) return status;
  return sockets;
}

ServiceManager::ServiceManager() {
  std::uint64_t watchdog_us = 0;
  if (sd_watchdog_enabled(0, &watchdog_us) <= 0) return;
  // Twice in each interval, so that one late wake-up is no death.
  alive_every_ = std::chrono::milliseconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(watchdog_us) / 2000));
}

void ServiceManager::Ready(const std::string& status) {
  sd_notify(0, ("READY=1\nSTATUS=" + OneLine(status)).c_str());
}

void ServiceManager::Alive(const std::string& status) {
  sd_notify(0, ("WATCHDOG=1\nSTATUS=" + OneLine(status)).c_str());
}

void ServiceManager::Reloading() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto us = static_cast<std::uint64_t>(now.tv_sec) * 1000000 +
                  static_cast<std::uint64_t>(now.tv_nsec) / 1000;
  sd_notify(0, ("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us)).c_str());
}

void ServiceManager::Stopping() { sd_notify(0, "STOPPING=1\nSTATUS=stops"); }

}  // namespace stoker
