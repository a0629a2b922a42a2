#include "daemon/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

namespace stoker::metrics {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);
constexpr std::size_t kMaxRequest = 8192;
constexpr int kNoDescriptorsWaitMs = 100;

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string path;  // of a unix socket

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Status Wrong(const std::string& listen, const std::string& what) {
  return Status(Code::kInvalidArgument, "metrics.listen: \"" + listen + "\" " + what);
}

Result<Address> Parse(const std::string& listen) {
  Address address;
  if (listen.starts_with("unix:")) {
    auto* name = reinterpret_cast<sockaddr_un*>(&address.storage);
    address.path = listen.substr(5);
    if (!address.path.starts_with('/')) return Wrong(listen, "has no absolute path");
    if (address.path.size() >= sizeof(name->sun_path)) return Wrong(listen, "is too long a path");
    name->sun_family = AF_UNIX;
    std::memcpy(name->sun_path, address.path.c_str(), address.path.size() + 1);
    address.size = sizeof(*name);
    return address;
  }
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return Wrong(listen, "is neither HOST:PORT nor unix:PATH");
  std::string host = listen.substr(0, colon);
  std::uint16_t port = 0;
  const char* end = listen.data() + listen.size();
  const auto parsed = std::from_chars(listen.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end) return Wrong(listen, "has no port");
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    if ((ntohl(v4->sin_addr.s_addr) >> 24) != 127) return Wrong(listen, "is no loopback address");
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof(*v4);
    return address;
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) {
    return Wrong(listen, "has no numeric address before its port");
  }
  if (!IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) return Wrong(listen, "is no loopback address");
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.size = sizeof(*v6);
  return address;
}

Status FromErrno(const std::string& listen, int error) {
  const Code code = error == EADDRINUSE ? Code::kAlreadyExists
                    : error == EACCES   ? Code::kPermissionDenied
                                        : Code::kInternal;
  return Status(code, "metrics.listen: " + listen + ": " + std::strerror(error));
}

// Removes what a daemon that died left behind, and nothing that is alive or not a socket.
Status ClearPath(const Address& address, const std::string& listen) {
  struct stat existing;
  if (lstat(address.path.c_str(), &existing) != 0) return Status();
  if (!S_ISSOCK(existing.st_mode)) {
    return Status(Code::kAlreadyExists, "metrics.listen: " + address.path +
                                            " exists and is not a socket; it was left alone");
  }
  const shm::Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), address.get(), address.size) == 0 || errno != ECONNREFUSED) {
    return FromErrno(listen, EADDRINUSE);
  }
  return unlink(address.path.c_str()) == 0 ? Status() : FromErrno(listen, errno);
}

// Waits until `fd` is ready for `events` or the deadline is over.
bool Wait(int fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd watched = {fd, events, 0};
  return left.count() > 0 && poll(&watched, 1, static_cast<int>(left.count())) > 0;
}

// The first line of a request whose head arrived whole; empty otherwise.
std::string RequestLine(int fd, Clock::time_point deadline) {
  std::string head;
  char buffer[1024];
  while (head.find("\r\n\r\n") == std::string::npos) {
    if (head.size() > kMaxRequest || !Wait(fd, POLLIN, deadline)) return {};
    const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    if (n <= 0) return {};
    head.append(buffer, static_cast<std::size_t>(n));
  }
  return head.substr(0, head.find("\r\n"));
}

void SendAll(int fd, std::string_view text, Clock::time_point deadline) {
  while (!text.empty()) {
    const ssize_t n = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EAGAIN || !Wait(fd, POLLOUT, deadline)) {
      return;
    }
  }
}

}  // namespace

Status MetricsServer::CheckAddress(const std::string& listen) { return Parse(listen).status(); }

Status MetricsServer::Start() {
  auto address = Parse(listen_);
  if (!address.ok()) return address.status();
  if (!address->path.empty()) STOKER_TRY(ClearPath(*address, listen_));
  listener_ =
      shm::Fd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bell_ = shm::Fd(eventfd(0, EFD_CLOEXEC));
  if (!listener_.valid() || !bell_.valid()) return FromErrno(listen_, errno);
  // A port that connections of a daemon before us still linger on is free; a live one is not.
  const int one = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(listener_.get(), address->get(), address->size) != 0) return FromErrno(listen_, errno);
  if (!address->path.empty()) {
    made_ = address->path;
    if (chmod(made_.c_str(), 0660) != 0) return FromErrno(listen_, errno);
  }
  if (listen(listener_.get(), 16) != 0) return FromErrno(listen_, errno);
  socklen_t size = sizeof(address->storage);
  if (made_.empty() &&
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address->storage), &size) == 0) {
    port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&address->storage)->sin_port);
  }
  thread_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "metrics");
    Run(stop);
  });
  return Status();
}

void MetricsServer::Stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    const std::uint64_t one = 1;
    while (write(bell_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (!made_.empty()) unlink(made_.c_str());
  made_.clear();
  listener_.Close();
}

void MetricsServer::Run(std::stop_token stop) {
  pollfd watched[2] = {{listener_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
  while (!stop.stop_requested()) {
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    const shm::Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.valid()) {
      Answer(client);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue and poll() would answer at once for ever.
      poll(&watched[1], 1, kNoDescriptorsWaitMs);
    }
  }
}

void MetricsServer::Answer(const shm::Fd& client) {
  const auto deadline = Clock::now() + kPatience;
  const std::string line = RequestLine(client.get(), deadline);
  if (line.empty()) return;
  const bool get = line.starts_with("GET ");
  const bool metrics = line.starts_with("GET /metrics ") || line.starts_with("GET /metrics?");
  const std::string body = metrics ? render_()
                           : get   ? "the metrics are at /metrics\n"
                                   : "only GET is answered\n";
  const std::string status = metrics ? "200 OK" : get ? "404 Not Found" : "405 Method Not Allowed";
  const std::string type = metrics ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain";
  SendAll(client.get(),
          "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body,
          deadline);
}

}  // namespace stoker::metrics
