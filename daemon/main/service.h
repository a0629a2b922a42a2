// Service: what the daemon and its service manager say to each other: sockets that were opened for
// it (LISTEN_FDS) and notes about its health (NOTIFY_SOCKET, WATCHDOG_USEC).
//
// Without a service manager nothing is inherited and every note is dropped.
//
// Thread-safety: one thread. Blocking: one datagram a note.
// Errors: kInvalidArgument naming an inherited descriptor that is not what its name says.
#pragma once

#include <chrono>
#include <string>

#include "daemon/base/status.h"
#include "shm/fd.h"

namespace stoker {

// Sockets that listen already; an invalid descriptor is one that we make ourselves.
struct InheritedSockets {
  shm::Fd attach;
  shm::Fd control;
};

// Takes the descriptors named "attach" (SOCK_SEQPACKET) and "control" (SOCK_STREAM), and clears the
// variables that announced them.
Result<InheritedSockets> TakeInheritedSockets();

class ServiceManager {
 public:
  ServiceManager();

  // How long may pass between two calls of Alive(); zero where no watchdog watches.
  std::chrono::milliseconds alive_every() const { return alive_every_; }

  void Ready(const std::string& status);
  void Alive(const std::string& status);
  // Between the two the manager knows that a new configuration is being read.
  void Reloading();
  void Reloaded(const std::string& status) { Ready(status); }
  void Stopping();

 private:
  std::chrono::milliseconds alive_every_{0};
};

}  // namespace stoker
