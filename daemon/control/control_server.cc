#include "daemon/control/control_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "daemon/base/log.h"

namespace stoker::control {
namespace {

constexpr std::size_t kMostUsers = 256;
constexpr int kMaxMessageBytes = 64 << 20;  // specs with 200,000 paths
constexpr auto kStopWait = std::chrono::seconds(1);
constexpr int kNoDescriptorsWaitMs = 100;

}  // namespace

ControlServer::ControlServer(shm::Fd listener, StreamDirectory* directory,
                             std::function<Status(int fd)> allow)
    : listener_(std::move(listener)),
      bell_(eventfd(0, EFD_CLOEXEC)),
      directory_(directory),
      allow_(std::move(allow)) {}

ControlServer::~ControlServer() { Stop(); }

Status ControlServer::Start() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // The daemon's own user calls most; a gRPC that does not start is better known now.
  if (ServerOf(geteuid()) == nullptr) {
    return Status(Code::kInternal, "the control service does not start");
  }
  acceptor_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "control");
    Accept(stop);
  });
  return Status();
}

void ControlServer::Stop() {
  if (!acceptor_.joinable()) return;
  acceptor_.request_stop();
  const std::uint64_t one = 1;
  while (write(bell_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  acceptor_.join();
  const auto deadline = std::chrono::system_clock::now() + kStopWait;
  for (auto& [uid, user] : users_) user.server->Shutdown(deadline);
  for (auto& [uid, user] : users_) user.server->Wait();
}

void ControlServer::Accept(std::stop_token stop) {
  pollfd watched[2] = {{listener_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
  while (!stop.stop_requested()) {
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    while (!stop.stop_requested()) {
      shm::Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.valid()) {
        Serve(std::move(socket));
        continue;
      }
      // Out of descriptors or memory the connection stays in the queue and poll() would answer at
      // once for ever: wait for some to be given back, or for the bell.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        LogLimited(LogLevel::kWarning, "control-accept",
                   "a connection to control.sock waits: no descriptors or memory are left");
        poll(&watched[1], 1, kNoDescriptorsWaitMs);
      }
      break;
    }
  }
}

void ControlServer::Serve(shm::Fd socket) {
  if (const Status allowed = allow_(socket.get()); !allowed.ok()) {
    LogLimited(LogLevel::kWarning, "control-refused", allowed.message());
    return;
  }
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  grpc::Server* server = ServerOf(peer.uid);
  if (server == nullptr) {
    LogLimited(LogLevel::kWarning, "control-refused",
               "uid " + std::to_string(peer.uid) + " is one user too many");
    return;
  }
  grpc::AddInsecureChannelFromFd(server, socket.Release());
}

grpc::Server* ControlServer::ServerOf(uid_t uid) {
  if (const auto it = users_.find(uid); it != users_.end()) return it->second.server.get();
  if (users_.size() >= kMostUsers) return nullptr;
  UserServer& user = users_.try_emplace(uid, directory_, uid).first->second;
  grpc::ServerBuilder builder;
  builder.RegisterService(&user.service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  user.server = builder.BuildAndStart();
  if (user.server != nullptr) return user.server.get();
  users_.erase(uid);
  return nullptr;
}

}  // namespace stoker::control
