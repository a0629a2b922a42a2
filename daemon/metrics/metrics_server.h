// MetricsServer: GET /metrics, on a loopback address or a unix socket, for a scraper of this host.
//
// One thread answers one connection after another, each within two seconds, so a client that
// dawdles delays a scrape and nothing else.
//
// Ownership: owns the listening socket; unlinks its unix socket when stopped.
// Thread-safety: Start() and Stop() from one thread; the page is rendered on the server's own.
// Errors: kInvalidArgument for an address that is not this host's own; kAlreadyExists where the
//   port or the path is taken; kInternal and kPermissionDenied with the system's words.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>

#include "daemon/base/status.h"
#include "shm/fd.h"

namespace stoker::metrics {

class MetricsServer {
 public:
  // Judges `listen`, as DaemonConfig.metrics.listen describes it, without using it.
  static Status CheckAddress(const std::string& listen);

  MetricsServer(std::string listen, std::function<std::string()> render)
      : listen_(std::move(listen)), render_(std::move(render)) {}
  ~MetricsServer() { Stop(); }

  Status Start();
  void Stop();
  // The TCP port, where the address said 0; 0 for a unix socket.
  int port() const { return port_; }

 private:
  void Run(std::stop_token stop);
  void Answer(const shm::Fd& client);

  const std::string listen_;
  const std::function<std::string()> render_;
  shm::Fd listener_;
  shm::Fd bell_;
  std::string made_;  // the unix socket's path
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace stoker::metrics
