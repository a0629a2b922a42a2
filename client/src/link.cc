#include "client/src/link.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "client/src/error.h"
#include "shm/layout.h"

namespace stoker::client {
namespace {

constexpr std::int64_t kNsPerMs = 1000000;
constexpr std::int64_t kLongestPollMs = 1000000;
// Daemon answers are short; specs go the other way.
constexpr std::size_t kReplyBytes = shm::kMaxTextBytes + 1024;

int PollMs(std::int64_t deadline_ns) {
  const std::int64_t left = deadline_ns - NowNs();
  if (left <= 0) return 0;
  const std::int64_t ms = (left + kNsPerMs - 1) / kNsPerMs;
  return ms > kLongestPollMs ? static_cast<int>(kLongestPollMs) : static_cast<int>(ms);
}

bool WaitFor(int fd, short events, std::int64_t deadline_ns) {
  pollfd entry = {fd, events, 0};
  while (true) {
    const int n = poll(&entry, 1, PollMs(deadline_ns));
    if (n > 0) return true;
    if ((n < 0 && errno != EINTR) || NowNs() >= deadline_ns) return false;
  }
}

// A non-blocking connect. A daemon whose queue of connections is full is waited for.
int ConnectUntil(int fd, const sockaddr_un& address, std::int64_t deadline_ns) {
  while (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || NowNs() >= deadline_ns) return -1;
    const timespec pause = {0, kNsPerMs};
    nanosleep(&pause, nullptr);
  }
  return 0;
}

// Connects a non-blocking socket.
stoker_code Connect(const char* path, std::int64_t deadline_ns, shm::Fd* out) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) {
    return Fail(STOKER_INVALID_ARGUMENT, "%s: a socket's path is at most %zu bytes", path,
                sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path, std::strlen(path));
  shm::Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Fail(STOKER_INTERNAL, "socket: %s", std::strerror(errno));
  if (ConnectUntil(fd.get(), address, deadline_ns) != 0) {
    if (errno == EACCES || errno == EPERM) {
      return Fail(STOKER_PERMISSION_DENIED,
                  "%s: %s; ask for access.group or access.allow_user in the daemon's configuration",
                  path, std::strerror(errno));
    }
    return Fail(STOKER_UNAVAILABLE,
                "no daemon listens on %s: %s; start stokerd, or set "
                "STOKER_RUNTIME_DIR",
                path, std::strerror(errno));
  }
  *out = static_cast<shm::Fd&&>(fd);
  return STOKER_OK;
}

// The code of a message that says that something went wrong: never STOKER_OK.
stoker_code FaultOf(const shm::Text& text) {
  return text.code == STOKER_OK ? STOKER_INTERNAL : static_cast<stoker_code>(text.code);
}

}  // namespace

std::int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

Link::Link() : owner_(getpid()) {}

Link::~Link() {
  End();
  // A fork did not inherit the mailbox: what lies at its address there is another's.
  if (owner_ != getpid()) mailbox_map_.Abandon();
}

stoker_code Link::Ask(const char* path, const shm::Attach& attach, std::int64_t deadline_ns,
                      Link** out) {
  shm::Fd socket;
  if (const stoker_code code = Connect(path, deadline_ns, &socket); code != STOKER_OK) return code;
  void* memory = std::malloc(sizeof(Link));
  if (memory == nullptr) return Fail(STOKER_RESOURCE_EXHAUSTED, "out of memory");
  Link* link = new (memory) Link();
  link->socket_ = static_cast<shm::Fd&&>(socket);
  const stoker_code code = link->Send(attach, deadline_ns);
  if (code != STOKER_OK) {
    link->Release();
    return code;
  }
  *out = link;
  return STOKER_OK;
}

std::uint64_t Link::Release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return 0;
  // Whoever said Outlived() held a reference then.
  const std::uint64_t gone = outlived_.load(std::memory_order_relaxed) ? arena_.bytes() : 0;
  this->~Link();
  std::free(this);
  return gone;
}

void Link::SayOldArenaGone() {
  std::byte message[sizeof(shm::MessageHeader)];
  const std::size_t bytes = shm::EncodeOldArenaGone(message, sizeof(message));
  if (socket_.valid()) (void)shm::SendMessage(socket_.get(), message, bytes, nullptr, 0);
}

void Link::End() {
  // A fork that could not be told to let go may still have the socket: closing ours is not enough.
  if (socket_.valid() && owner_ == getpid()) shutdown(socket_.get(), SHUT_RDWR);
  socket_.Close();
}

stoker_code Link::Send(const shm::Attach& attach, std::int64_t deadline_ns) {
  auto* buffer = static_cast<std::byte*>(std::malloc(shm::kMaxMessageBytes));
  if (buffer == nullptr) return Fail(STOKER_RESOURCE_EXHAUSTED, "out of memory");
  const std::size_t bytes = shm::Encode(attach, buffer, shm::kMaxMessageBytes);
  bool sent = false;
  while (bytes > 0 && !sent) {
    sent = shm::SendMessage(socket_.get(), buffer, bytes, nullptr, 0);
    if (!sent && (errno != EAGAIN || !WaitFor(socket_.get(), POLLOUT, deadline_ns))) break;
  }
  std::free(buffer);
  if (bytes == 0) {
    return Fail(STOKER_INVALID_ARGUMENT,
                "the attach does not fit: a name has at most %u bytes, a token %u, a spec %u",
                shm::kMaxNameBytes, shm::kMaxTokenBytes, shm::kMaxSpecBytes);
  }
  // A daemon that refuses before it has read anything may have answered already: the answer says
  // more than the failed send.
  if (!sent && !WaitFor(socket_.get(), POLLIN, 0)) {
    return Fail(STOKER_UNAVAILABLE, "the daemon went away during the attach");
  }
  return STOKER_OK;
}

stoker_code Link::Await(std::int64_t deadline_ns) {
  alignas(8) std::byte reply[kReplyBytes];
  while (true) {
    if (!WaitFor(socket_.get(), POLLIN, deadline_ns)) {
      return Fail(STOKER_DEADLINE_EXCEEDED,
                  "the daemon did not answer the attach in time: the "
                  "stream is still being indexed, or raise timeout_ns");
    }
    shm::Received received;
    const auto result = shm::ReceiveMessage(socket_.get(), reply, sizeof(reply), &received);
    if (result == shm::ReceiveResult::kAgain) continue;
    if (result != shm::ReceiveResult::kOk) {
      return Fail(STOKER_UNAVAILABLE, "the daemon closed the connection during the attach");
    }
    shm::MessageType type;
    std::uint16_t version = 0;
    if (const char* wrong = shm::DecodeHeader(reply, received.bytes, &type, &version)) {
      return Fail(STOKER_FAILED_PRECONDITION,
                  "the daemon's answer: %s (version %u, this client "
                  "speaks %u)",
                  wrong, version, shm::kProtocolVersion);
    }
    if (received.fd_count != shm::FdsOf(type)) {
      return Fail(STOKER_INTERNAL, "the daemon's answer came with %zu descriptors",
                  received.fd_count);
    }
    if (type != shm::MessageType::kNotice) return OnAnswer(reply, &received, type);
  }
}

stoker_code Link::OnAnswer(const std::byte* reply, shm::Received* received, shm::MessageType type) {
  if (type == shm::MessageType::kRefused || type == shm::MessageType::kClosing) {
    shm::Text text;
    if (!shm::Decode(reply, received->bytes, &text)) {
      return Fail(STOKER_INTERNAL, "the daemon's refusal cannot be read");
    }
    return Fail(FaultOf(text), "%.*s", static_cast<int>(text.text.size()), text.text.data());
  }
  shm::Attached attached;
  if (type != shm::MessageType::kAttached || !shm::Decode(reply, received->bytes, &attached)) {
    return Fail(STOKER_INTERNAL, "the daemon's answer cannot be read");
  }
  body_ = attached.body;
  return Map(static_cast<shm::Fd&&>(received->fds[0]), static_cast<shm::Fd&&>(received->fds[1]),
             static_cast<shm::Fd&&>(received->fds[2]));
}

stoker_code Link::Map(shm::Fd arena, shm::Fd mailbox, shm::Fd event) {
  // Nothing is believed that the kernel can confirm: a mapping past the file's end is a SIGBUS.
  std::uint64_t slots_bytes = 0;
  if (__builtin_mul_overflow(body_.slot_bytes, std::uint64_t{body_.slots}, &slots_bytes) ||
      slots_bytes == 0 || body_.slot_bytes % shm::kSlotAlignment != 0 ||
      slots_bytes != body_.arena_bytes || shm::FileBytes(arena.get()) < body_.arena_bytes ||
      shm::FileBytes(mailbox.get()) < shm::kMailboxBytes) {
    return Fail(STOKER_INTERNAL, "the daemon's arena is not what it says");
  }
  arena_ = shm::Mapping::Map(arena.get(), body_.arena_bytes, body_.exclusive != 0);
  mailbox_map_ = shm::Mapping::Map(mailbox.get(), shm::kMailboxBytes, true);
  if (!arena_.valid() || !mailbox_map_.valid()) {
    return Fail(STOKER_RESOURCE_EXHAUSTED, "mapping %llu bytes of batches: %s",
                static_cast<unsigned long long>(body_.arena_bytes), std::strerror(errno));
  }
  madvise(mailbox_map_.data(), mailbox_map_.bytes(), MADV_DONTFORK);
  event_ = static_cast<shm::Fd&&>(event);
  auto* memory = reinterpret_cast<shm::MailboxMemory*>(mailbox_map_.data());
  if (memory->magic != shm::kMailboxMagic || memory->version != shm::kMailboxVersion) {
    return Fail(STOKER_INTERNAL, "the daemon's mailbox has another layout");
  }
  mailbox_ = shm::ClientMailbox(memory, event_.get());
  return STOKER_OK;
}

void Link::Return(std::uint32_t slot, std::uint32_t generation) {
  pthread_mutex_lock(&return_mutex_);
  (void)mailbox_.Return(shm::BatchWord(slot, generation));
  pthread_mutex_unlock(&return_mutex_);
  held_.fetch_sub(1, std::memory_order_relaxed);
}

void Link::ReadSocket() {
  alignas(8) std::byte buffer[kReplyBytes];
  while (alive_) {
    shm::Received received;
    const auto result = shm::ReceiveMessage(socket_.get(), buffer, sizeof(buffer), &received);
    if (result == shm::ReceiveResult::kAgain) return;
    if (result != shm::ReceiveResult::kOk) {
      alive_ = false;
      return;
    }
    shm::MessageType type;
    std::uint16_t version = 0;
    shm::Text text;
    if (shm::DecodeHeader(buffer, received.bytes, &type, &version) != nullptr ||
        received.fd_count != 0 || !shm::Decode(buffer, received.bytes, &text)) {
      continue;
    }
    // A stream that was closed, unlike a daemon that went away, will not come back by itself.
    const bool final = type == shm::MessageType::kClosing && text.code != STOKER_UNAVAILABLE;
    if (type == shm::MessageType::kError || final) {
      has_error_ = true;
      error_code_ = FaultOf(text);
      std::snprintf(error_text_, sizeof(error_text_), "%.*s", static_cast<int>(text.text.size()),
                    text.text.data());
    }
    if (type == shm::MessageType::kClosing) alive_ = false;
  }
}

stoker_code Link::RaiseError() const { return Fail(error_code_, "%s", error_text_); }

}  // namespace stoker::client
