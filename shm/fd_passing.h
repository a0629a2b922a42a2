// Messages with descriptors over a SOCK_SEQPACKET socket.
//
// A message's type fixes how many descriptors it carries. A message with another number, one that
// was cut, and one whose descriptors were cut are refused, and every descriptor that came with
// them is closed. Received descriptors are close-on-exec.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/fd.h"

namespace stoker::shm {

inline constexpr std::size_t kMaxFds = 8;

enum class ReceiveResult {
  kOk,
  kAgain,   // nothing there (a non-blocking socket)
  kEnd,     // the peer closed
  kBroken,  // cut message, or cut descriptors; they are closed
  kError,   // errno
};

struct Received {
  std::size_t bytes = 0;
  std::size_t fd_count = 0;
  Fd fds[kMaxFds];
};

// Receives one message into `buffer`. A message longer than it is kBroken.
ReceiveResult ReceiveMessage(int socket, std::byte* buffer, std::size_t capacity, Received* out);

// Sends one message whole, or answers false with errno (EAGAIN where a non-blocking socket is
// full, EINVAL for more than kMaxFds descriptors).
bool SendMessage(int socket, const std::byte* data, std::size_t bytes, const int* fds,
                 std::size_t fd_count);

}  // namespace stoker::shm
