// The daemon's side of attach.sock, played by a test word for word: it says and delivers what the
// test tells it, also what no sane daemon would.
//
// Everything here runs in the test's own thread; the client's blocking calls go in another one.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "shm/attach_protocol.h"
#include "shm/batch_writer.h"
#include "shm/fd_passing.h"
#include "shm/mailbox.h"
#include "shm/memfd.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace stoker::test {

inline constexpr int kPatienceMs = 60000;

// Two tensors: `x` float32 (rows, 3) and row ids, four rows at most.
inline shm::SlotPlan PlanOfFour() {
  shm::TensorSpec x;
  x.name = "x";
  x.dtype_code = 2;
  x.dtype_bits = 32;
  x.shape = {4, 3};
  x.max_bytes = 48;
  shm::TensorSpec ids;
  ids.name = "row_ids";
  ids.dtype_bits = 64;
  ids.role = shm::TensorRole::kRowIds;
  ids.shape = {4};
  ids.max_bytes = 32;
  return *shm::SlotPlan::Make({x, ids}, 4);
}

class TestSession {
 public:
  explicit TestSession(shm::Fd socket) : plan_(PlanOfFour()), socket_(std::move(socket)) {
    std::vector<std::byte> buffer(shm::kMaxMessageBytes);
    shm::Received received;
    Await();
    REQUIRE(shm::ReceiveMessage(socket_.get(), buffer.data(), buffer.size(), &received) ==
            shm::ReceiveResult::kOk);
    shm::MessageType type;
    std::uint16_t version = 0;
    REQUIRE(shm::DecodeHeader(buffer.data(), received.bytes, &type, &version) == nullptr);
    REQUIRE(type == shm::MessageType::kAttach);
    shm::Attach attach;
    REQUIRE(shm::Decode(buffer.data(), received.bytes, &attach));
    ask = attach.body;
    name = attach.name;
    token = attach.token;
    spec = attach.spec;
  }

  // Answers with arena and mailbox. `change` may spoil what is said; `fds` how many come with it.
  void Welcome(const std::function<void(shm::AttachedBody*)>& change = {},
               std::size_t fds = shm::kAttachedFds) {
    constexpr std::uint32_t kSlots = 3;
    shm::Attached attached;
    attached.name = "test";
    shm::AttachedBody& body = attached.body;
    body.slot_bytes = plan_.slot_bytes();
    body.slots = kSlots;
    body.arena_bytes = body.slot_bytes * kSlots;
    body.exclusive = 1;
    body.seed = 7;
    body.batch = 4;
    body.world_size = 1;
    arena_fd_ = shm::MakeMemfd("stoker-test-arena", body.arena_bytes, shm::Seals::kReadOnlyLater);
    REQUIRE(arena_fd_.valid());
    arena_ = shm::Mapping::Map(arena_fd_.get(), body.arena_bytes, true);
    mailbox_ = shm::DaemonMailbox::Make(1);
    REQUIRE(mailbox_.valid());
    if (change) change(&body);
    shm::Fd shared;
    if (body.exclusive == 0) shared = shm::ReopenReadOnly(arena_fd_.get());
    std::byte buffer[1024];
    const std::size_t bytes = shm::Encode(attached, buffer, sizeof(buffer));
    const int all[4] = {body.exclusive == 0 ? shared.get() : arena_fd_.get(), mailbox_.memory_fd(),
                        mailbox_.event_fd(), mailbox_.event_fd()};
    REQUIRE(shm::SendMessage(socket_.get(), buffer, bytes, all, fds));
  }

  // Writes a batch of two rows and delivers its word.
  void Deliver(std::uint32_t slot, shm::BatchHeader header) {
    shm::BatchWriter writer;
    writer.Begin(plan_, Slot(slot));
    const float x[6] = {0.f, 1.f, 2.f, 3.f, 4.f, static_cast<float>(header.step)};
    std::memcpy(writer.Payload(0), x, sizeof(x));
    const std::int64_t ids[2] = {std::int64_t{1} << 40, -1};
    std::memcpy(writer.Payload(1), ids, sizeof(ids));
    writer.SetRows(0, 2);
    writer.SetRows(1, 2);
    header.rows = 2;
    header.real_rows = 1;
    writer.Finish(header);
    Push(shm::BatchWord(slot, header.generation));
  }
  void Deliver(std::uint32_t slot, std::uint32_t generation, std::uint64_t step) {
    shm::BatchHeader header;
    header.generation = generation;
    header.step = step;
    header.first_row = step * 4;
    header.next_row = step * 4 + 4;
    Deliver(slot, header);
  }
  void Push(std::uint64_t word) { REQUIRE(mailbox_.Deliver(word)); }
  std::byte* Slot(std::uint32_t slot) const { return arena_.data() + slot * plan_.slot_bytes(); }

  void Say(shm::MessageType type, std::int32_t code, const std::string& text) {
    std::byte buffer[1024];
    const std::size_t bytes = shm::Encode(type, {code, text}, buffer, sizeof(buffer));
    REQUIRE(shm::SendMessage(socket_.get(), buffer, bytes, nullptr, 0));
  }

  // The next word that came back; 0 where there is none.
  std::uint64_t Returned() {
    std::uint64_t word = 0;
    return mailbox_.TakeReturn(&word) == shm::RingResult::kOk ? word : 0;
  }
  // Waits until the client has left.
  bool SeesEnd() {
    Await();
    std::byte buffer[16];
    shm::Received received;
    return shm::ReceiveMessage(socket_.get(), buffer, sizeof(buffer), &received) ==
           shm::ReceiveResult::kEnd;
  }

  shm::AttachBody ask = {};
  std::string name;
  std::string token;
  std::string spec;

 private:
  void Await() const {
    pollfd entry = {socket_.get(), POLLIN, 0};
    REQUIRE(poll(&entry, 1, kPatienceMs) == 1);
  }

  shm::SlotPlan plan_;
  shm::Fd socket_;
  shm::Fd arena_fd_;
  shm::Mapping arena_;
  shm::DaemonMailbox mailbox_;
};

class TestDaemon {
 public:
  TestDaemon() { Start(); }

  std::string socket() const { return temp_ / "attach.sock"; }

  void Start() {
    listener_ = shm::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
    REQUIRE(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(listen(listener_.get(), 8) == 0);
  }
  // Sessions die when the test destroys them.
  void Stop() {
    listener_.Close();
    unlink(socket().c_str());
  }

  bool Waiting() const {
    pollfd entry = {listener_.get(), POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }
  // The next client, with its Attach.
  TestSession Accept() const {
    pollfd entry = {listener_.get(), POLLIN, 0};
    REQUIRE(poll(&entry, 1, kPatienceMs) == 1);
    return TestSession(shm::Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }

 private:
  TempDir temp_;
  shm::Fd listener_;
};

}  // namespace stoker::test
