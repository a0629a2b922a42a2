// ControlServer: control.sock, with health and reflection.
//
// We listen and accept ourselves and hand each connection to gRPC as a descriptor: gRPC's own
// listener would steal a live daemon's socket and hide who the peer is.
//
// Ownership: borrows the directory. Thread-safety: Start() and Stop() from one thread.
// Blocking: Stop() up to a second, for calls in progress.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/base/status.h"
#include "daemon/control/control_service.h"
#include "shm/fd.h"

namespace stoker::control {

class ControlServer {
 public:
  // `allow` judges a connected socket's peer.
  ControlServer(shm::Fd listener, StreamDirectory* directory, std::function<Status(int fd)> allow);
  ~ControlServer();

  Status Start();
  void Stop();

 private:
  void Accept(std::stop_token stop);
  uid_t UidOf(const std::string& peer);

  const shm::Fd listener_;
  const shm::Fd bell_;
  const std::function<Status(int fd)> allow_;
  ControlService service_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::map<std::string, uid_t> uids_;  // by gRPC's name for a connection, "fd:N"
  std::jthread acceptor_;
};

}  // namespace stoker::control
