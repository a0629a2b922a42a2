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

#include "daemon/base/log.h"

namespace stoker::control {
namespace {

constexpr uid_t kNobody = static_cast<uid_t>(-1);
constexpr int kMaxMessageBytes = 64 << 20;  // specs with 200,000 paths
constexpr auto kStopWait = std::chrono::seconds(1);

}  // namespace

ControlServer::ControlServer(shm::Fd listener, StreamDirectory* directory,
                             std::function<Status(int fd)> allow)
    : listener_(std::move(listener)),
      bell_(eventfd(0, EFD_CLOEXEC)),
      allow_(std::move(allow)),
      service_(directory, [this](const std::string& peer) { return UidOf(peer); }) {}

ControlServer::~ControlServer() { Stop(); }

Status ControlServer::Start() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return Status(Code::kInternal, "the control service does not start");
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
  server_->Shutdown(std::chrono::system_clock::now() + kStopWait);
  server_->Wait();
}

void ControlServer::Accept(std::stop_token stop) {
  pollfd watched[2] = {{listener_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
  while (!stop.stop_requested()) {
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    while (!stop.stop_requested()) {
      shm::Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) break;
      if (const Status allowed = allow_(socket.get()); !allowed.ok()) {
        LogLimited(LogLevel::kWarning, "control-refused", allowed.message());
        continue;
      }
      ucred credentials = {};
      socklen_t size = sizeof(credentials);
      if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) continue;
      {
        std::lock_guard lock(mutex_);
        uids_["fd:" + std::to_string(socket.get())] = credentials.uid;
      }
      grpc::AddInsecureChannelFromFd(server_.get(), socket.Release());
    }
  }
}

uid_t ControlServer::UidOf(const std::string& peer) {
  std::lock_guard lock(mutex_);
  const auto it = uids_.find(peer);
  return it == uids_.end() ? kNobody : it->second;
}

}  // namespace stoker::control
