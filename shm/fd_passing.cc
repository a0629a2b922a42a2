#include "shm/fd_passing.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace stoker::shm {

ReceiveResult ReceiveMessage(int socket, std::byte* buffer, std::size_t capacity, Received* out) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  iovec data = {buffer, capacity};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? ReceiveResult::kAgain : ReceiveResult::kError;
  }

  // Own every descriptor before anything is judged, so that none can leak.
  out->fd_count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      Fd owned(fd);
      if (out->fd_count < kMaxFds) out->fds[out->fd_count++] = static_cast<Fd&&>(owned);
    }
  }
  out->bytes = static_cast<std::size_t>(n);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    for (std::size_t i = 0; i < out->fd_count; ++i) out->fds[i].Close();
    out->fd_count = 0;
    return ReceiveResult::kBroken;
  }
  return n == 0 && out->fd_count == 0 ? ReceiveResult::kEnd : ReceiveResult::kOk;
}

bool SendMessage(int socket, const std::byte* data, std::size_t bytes, const int* fds,
                 std::size_t fd_count) {
  if (fd_count > kMaxFds) {
    errno = EINVAL;
    return false;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  iovec part = {const_cast<std::byte*>(data), bytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
    std::memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
  }
  ssize_t n = 0;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(bytes);
}

}  // namespace stoker::shm
