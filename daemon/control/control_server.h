// ControlServer: control.sock, with health and reflection.
//
// We listen and accept ourselves and hand each connection to gRPC as a descriptor: gRPC's own
// listener would steal a live daemon's socket and hide who the peer is. Each user has a gRPC server
// of its own, so a call knows its user by the service it arrives at. gRPC names such a connection
// by its descriptor's number alone, and a number is used again while calls of the connection that
// had it before still run.
//
// Ownership: borrows the directory. Thread-safety: Start() and Stop() from one thread.
// Blocking: Stop() up to a second, for calls in progress.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
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
  struct UserServer {
    UserServer(StreamDirectory* directory, uid_t uid) : service(directory, uid) {}

    ControlService service;
    std::unique_ptr<grpc::Server> server;
  };

  void Accept(std::stop_token stop);
  void Serve(shm::Fd socket);
  // The server of `uid`, made when its first connection comes; null where gRPC cannot start one or
  // there are kMostUsers.
  grpc::Server* ServerOf(uid_t uid);

  const shm::Fd listener_;
  const shm::Fd bell_;
  StreamDirectory* const directory_;
  const std::function<Status(int fd)> allow_;
  std::map<uid_t, UserServer> users_;  // the acceptor's while it runs
  std::jthread acceptor_;
};

}  // namespace stoker::control
