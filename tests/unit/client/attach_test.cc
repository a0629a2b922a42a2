// What a trainer sees through the C ABI, whatever the daemon says or does.
#include <sys/mman.h>
#include <sys/wait.h>

#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "client/include/stoker/stoker.h"
#include "tests/unit/client/test_daemon.h"

namespace stoker {
namespace {

using shm::BatchWord;
using test::TestDaemon;
using test::TestSession;

constexpr std::int64_t kPatience = 60'000'000'000;

struct Outcome {
  stoker_code code;
  std::string text;
  stoker_stream* stream = nullptr;
  stoker_batch* batch = nullptr;
};

std::future<Outcome> AttachLater(const TestDaemon& daemon, std::int64_t reconnect_ns,
                                 std::uint32_t flags = 0) {
  return std::async(std::launch::async, [path = daemon.socket(), reconnect_ns, flags] {
    stoker_attach_options options = {};
    options.struct_bytes = sizeof(options);
    options.rank = 1;
    options.world_size = 2;
    options.flags = flags;
    options.socket_path = path.c_str();
    options.stream_name = "test";
    options.spec_text = "name: \"test\"";
    options.timeout_ns = kPatience;
    options.reconnect_timeout_ns = reconnect_ns;
    Outcome out = {};
    out.code = stoker_attach(&options, &out.stream);
    if (out.code != STOKER_OK) out.text = stoker_last_error();
    return out;
  });
}

Outcome Next(stoker_stream* stream, std::int64_t timeout_ns = kPatience) {
  Outcome out = {};
  out.code = stoker_next(stream, timeout_ns, &out.batch);
  if (out.code != STOKER_OK) out.text = stoker_last_error();
  return out;
}

// An attached client with its daemon's side.
struct Pair {
  explicit Pair(const TestDaemon& daemon, std::int64_t reconnect_ns = -1, std::uint32_t flags = 0) {
    auto attached = AttachLater(daemon, reconnect_ns, flags);
    session.emplace(daemon.Accept());
    session->Welcome();
    const Outcome out = attached.get();
    INFO(out.text);
    REQUIRE(out.code == STOKER_OK);
    stream = out.stream;
  }
  ~Pair() { stoker_stream_close(stream); }

  stoker_stream_info info() const {
    stoker_stream_info out = {};
    out.struct_bytes = sizeof(out);
    REQUIRE(stoker_stream_get_info(stream, &out) == STOKER_OK);
    return out;
  }

  std::optional<TestSession> session;
  stoker_stream* stream = nullptr;
};

std::string TokenOf(const stoker_batch* batch) {
  char text[STOKER_TOKEN_MAX];
  REQUIRE(stoker_batch_token(batch, text, sizeof(text)) == STOKER_OK);
  return text;
}

TEST_CASE("an attach carries what the trainer asked for", "[client]") {
  const TestDaemon daemon;
  const Pair pair(daemon, -1, STOKER_JOIN_NEXT_EPOCH);
  CHECK(pair.session->ask.rank == 1);
  CHECK(pair.session->ask.world_size == 2);
  CHECK(pair.session->ask.local_world_size == 2);
  CHECK(pair.session->ask.join == 1);
  CHECK(pair.session->ask.pid == getpid());
  CHECK(pair.session->ask.old_arena_bytes == 0);
  CHECK(pair.session->name == "test");
  CHECK(pair.session->spec == "name: \"test\"");
  CHECK(pair.session->token.empty());
  CHECK(pair.info().slots == 3);
  CHECK(pair.info().seed == 7);
}

TEST_CASE("a batch is read where it was written and goes back once, by its own word", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  pair.session->Deliver(2, 9, 5);
  const Outcome got = Next(pair.stream);
  REQUIRE(got.code == STOKER_OK);
  stoker_batch_info info = {};
  info.struct_bytes = sizeof(info);
  REQUIRE(stoker_batch_get_info(got.batch, &info) == STOKER_OK);
  CHECK(info.rows == 2);
  CHECK(info.real_rows == 1);
  CHECK(info.capacity_rows == 4);
  CHECK(info.step == 5);
  CHECK(info.first_row == 20);
  CHECK(info.tensors == 2);
  stoker_tensor x;
  REQUIRE(stoker_batch_find(got.batch, "x", &x) == STOKER_OK);
  CHECK(x.ndim == 2);
  CHECK(x.shape[0] == 2);
  CHECK(x.shape[1] == 3);
  CHECK(x.byte_size == 24);
  CHECK(x.writable == 1);
  CHECK(static_cast<const float*>(x.data)[5] == 5.f);
  CHECK(reinterpret_cast<std::uintptr_t>(x.data) % 256 == 0);
  CHECK(stoker_batch_find(got.batch, "y", &x) == STOKER_NOT_FOUND);
  CHECK(stoker_batch_tensor(got.batch, 2, &x) == STOKER_INVALID_ARGUMENT);
  // What is written in place is in the arena itself: nothing was copied.
  static_cast<float*>(x.data)[0] = 42.f;
  float seen = 0;
  std::memcpy(&seen, pair.session->Slot(2) + 512, sizeof(seen));
  CHECK(seen == 42.f);

  stoker_batch_retain(got.batch);
  stoker_batch_release(got.batch);
  CHECK(pair.session->Returned() == 0);
  stoker_batch_release(got.batch);
  CHECK(pair.session->Returned() == BatchWord(2, 9));
  CHECK(pair.session->Returned() == 0);
}

TEST_CASE("an epoch's end is an outcome, and the last one is said for good", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  CHECK(Next(pair.stream, 0).code == STOKER_DEADLINE_EXCEEDED);
  pair.session->Push(shm::EndOfEpochWord(0));
  pair.session->Deliver(0, 1, 0);
  pair.session->Push(shm::EndOfStreamWord(1));
  CHECK(Next(pair.stream).code == STOKER_OUT_OF_RANGE);
  CHECK(pair.info().ended == 0);
  const Outcome got = Next(pair.stream);
  CHECK(got.code == STOKER_OK);
  CHECK(Next(pair.stream).code == STOKER_OUT_OF_RANGE);
  CHECK(pair.info().ended == 1);
  CHECK(Next(pair.stream, 0).code == STOKER_OUT_OF_RANGE);
  stoker_batch_release(got.batch);
}

TEST_CASE("holding every slot is told with their number", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  std::vector<stoker_batch*> held;
  for (std::uint32_t i = 0; i < 3; ++i) {
    pair.session->Deliver(i, 1, i);
    held.push_back(Next(pair.stream).batch);
  }
  const Outcome full = Next(pair.stream, 0);
  CHECK(full.code == STOKER_RESOURCE_EXHAUSTED);
  CHECK(full.text.find("all 3 slots") != std::string::npos);
  stoker_batch_release(held.back());
  held.pop_back();
  CHECK(Next(pair.stream, 0).code == STOKER_DEADLINE_EXCEEDED);
  for (auto* batch : held) stoker_batch_release(batch);
}

TEST_CASE("batches before an error come first, and the error stays", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  pair.session->Deliver(0, 1, 0);
  pair.session->Say(shm::MessageType::kNotice, 0, "by the way");
  pair.session->Say(shm::MessageType::kError, STOKER_DATA_LOSS, "record 5 is damaged");
  pair.session->Push(shm::ErrorWord());
  const Outcome got = Next(pair.stream);
  CHECK(got.code == STOKER_OK);
  for (int i = 0; i < 2; ++i) {
    const Outcome error = Next(pair.stream);
    CHECK(error.code == STOKER_DATA_LOSS);
    CHECK(error.text == "record 5 is damaged");
  }
  stoker_batch_release(got.batch);
}

TEST_CASE("an error that says OK, and a word that names no batch, are errors all the same",
          "[client]") {
  const TestDaemon daemon;
  SECTION("an error") {
    Pair pair(daemon);
    pair.session->Say(shm::MessageType::kError, 0, "nothing is wrong");
    pair.session->Push(shm::ErrorWord());
    CHECK(Next(pair.stream).code == STOKER_INTERNAL);
  }
  SECTION("a refusal") {
    auto attached = AttachLater(daemon, -1);
    TestSession session = daemon.Accept();
    session.Say(shm::MessageType::kRefused, 0, "come in");
    CHECK(attached.get().code == STOKER_INTERNAL);
  }
  SECTION("a slot that is none") {
    Pair pair(daemon);
    pair.session->Push(BatchWord(3, 1));
    CHECK(Next(pair.stream).code == STOKER_DATA_LOSS);
  }
  SECTION("another generation") {
    Pair pair(daemon);
    pair.session->Deliver(0, 1, 0);
    pair.session->Push(BatchWord(0, 2));
    const Outcome got = Next(pair.stream);
    CHECK(got.code == STOKER_OK);
    CHECK(Next(pair.stream).code == STOKER_DATA_LOSS);
    stoker_batch_release(got.batch);
  }
  SECTION("bytes that are no batch") {
    Pair pair(daemon);
    std::memset(pair.session->Slot(1), 0xff, 4096);
    pair.session->Push(BatchWord(1, 0xffffffff));
    CHECK(Next(pair.stream).code == STOKER_DATA_LOSS);
  }
}

TEST_CASE("a daemon's answer is believed only as far as it holds", "[client]") {
  const TestDaemon daemon;
  const auto refused = [&](const std::function<void(shm::AttachedBody*)>& change, std::size_t fds) {
    auto attached = AttachLater(daemon, -1);
    TestSession session = daemon.Accept();
    session.Welcome(change, fds);
    const Outcome out = attached.get();
    CHECK(session.SeesEnd());
    return out.code;
  };
  CHECK(refused({}, 0) == STOKER_INTERNAL);
  CHECK(refused({}, 2) == STOKER_INTERNAL);
  CHECK(refused({}, 4) == STOKER_INTERNAL);
  CHECK(refused(
            [](auto* body) {
              body->slots = 4;
              body->arena_bytes = body->slot_bytes * 4;
            },
            3) == STOKER_INTERNAL);
  CHECK(refused([](auto* body) { body->slots = 0; }, 3) == STOKER_INTERNAL);
  CHECK(refused([](auto* body) { body->slot_bytes = ~std::uint64_t{0}; }, 3) == STOKER_INTERNAL);
  CHECK(refused(
            [](auto* body) {
              body->slots = 12;
              body->slot_bytes = 1024;
            },
            3) == STOKER_INTERNAL);
}

TEST_CASE("a refusal keeps its code and its words", "[client]") {
  const TestDaemon daemon;
  auto attached = AttachLater(daemon, -1);
  TestSession session = daemon.Accept();
  session.Say(shm::MessageType::kNotice, 0, "indexing");
  session.Say(shm::MessageType::kRefused, STOKER_FAILED_PRECONDITION, "rank 1 is taken");
  const Outcome out = attached.get();
  CHECK(out.code == STOKER_FAILED_PRECONDITION);
  CHECK(out.text == "rank 1 is taken");
}

TEST_CASE("a shared lane's tensors say that they cannot be written", "[client]") {
  const TestDaemon daemon;
  auto attached = AttachLater(daemon, -1);
  TestSession session = daemon.Accept();
  session.Welcome([](auto* body) { body->exclusive = 0; });
  const Outcome out = attached.get();
  REQUIRE(out.code == STOKER_OK);
  session.Deliver(0, 1, 0);
  const Outcome got = Next(out.stream);
  stoker_tensor x;
  REQUIRE(stoker_batch_tensor(got.batch, 0, &x) == STOKER_OK);
  CHECK(x.writable == 0);
  stoker_batch_release(got.batch);
  stoker_stream_close(out.stream);
}

TEST_CASE("a client comes back to a new daemon at its own position, with its batches in hand",
          "[client]") {
  TestDaemon daemon;
  Pair pair(daemon, kPatience, STOKER_JOIN_NEXT_EPOCH);
  pair.session->Deliver(0, 1, 0);
  pair.session->Deliver(1, 1, 1);
  const Outcome first = Next(pair.stream);
  REQUIRE(first.code == STOKER_OK);
  daemon.Stop();
  pair.session.reset();
  // What was delivered before is still taken.
  const Outcome second = Next(pair.stream);
  REQUIRE(second.code == STOKER_OK);
  CHECK(Next(pair.stream, 0).code == STOKER_DEADLINE_EXCEEDED);

  daemon.Start();
  auto later = std::async(std::launch::async, [&] { return Next(pair.stream); });
  pair.session.emplace(daemon.Accept());
  CHECK(pair.session->token == TokenOf(second.batch));
  CHECK(pair.session->ask.old_arena_bytes == 3 * 4096);
  CHECK(pair.session->ask.join == 0);
  pair.session->Welcome([](auto* body) { body->row = 8; });
  pair.session->Deliver(0, 1, 2);
  const Outcome third = later.get();
  REQUIRE(third.code == STOKER_OK);
  CHECK(pair.info().reconnects == 1);
  CHECK(TokenOf(third.batch) != TokenOf(second.batch));
  stoker_tensor x;
  REQUIRE(stoker_batch_tensor(first.batch, 0, &x) == STOKER_OK);
  CHECK(static_cast<const float*>(x.data)[1] == 1.f);
  stoker_batch_release(first.batch);
  stoker_batch_release(second.batch);
  CHECK(pair.session->Returned() == 0);  // they are the dead daemon's
  stoker_batch_release(third.batch);
  CHECK(pair.session->Returned() == BatchWord(0, 1));
}

TEST_CASE("an epoch that ended as the daemon died is still told, once", "[client]") {
  TestDaemon daemon;
  const bool last = GENERATE(false, true);
  Pair pair(daemon, kPatience);
  shm::BatchHeader header;
  header.generation = 1;
  header.next_epoch = 1;
  pair.session->Deliver(0, header);
  stoker_batch_release(Next(pair.stream).batch);
  pair.session.reset();
  auto later = std::async(std::launch::async, [&] { return Next(pair.stream); });
  pair.session.emplace(daemon.Accept());
  pair.session->Welcome([last](auto* body) {
    body->epoch = 1;
    body->repeat = last ? 1 : 2;
  });
  if (last) pair.session->Push(shm::EndOfStreamWord(0));
  CHECK(later.get().code == STOKER_OUT_OF_RANGE);
  CHECK(pair.info().ended == (last ? 1 : 0));
  if (last) return;
  header.epoch = 1;
  pair.session->Deliver(0, header);
  const Outcome got = Next(pair.stream);
  CHECK(got.code == STOKER_OK);
  stoker_batch_release(got.batch);
}

TEST_CASE("many short calls come back as surely as a long one, and ask once", "[client]") {
  TestDaemon daemon;
  Pair pair(daemon, kPatience);
  pair.session.reset();
  while (!daemon.Waiting()) REQUIRE(Next(pair.stream, 0).code == STOKER_DEADLINE_EXCEEDED);
  pair.session.emplace(daemon.Accept());
  for (int i = 0; i < 50; ++i) REQUIRE(Next(pair.stream, 0).code == STOKER_DEADLINE_EXCEEDED);
  CHECK_FALSE(daemon.Waiting());
  pair.session->Welcome();
  pair.session->Deliver(1, 1, 0);
  Outcome got;
  do {
    got = Next(pair.stream, 0);
  } while (got.code == STOKER_DEADLINE_EXCEEDED);
  CHECK(got.code == STOKER_OK);
  CHECK_FALSE(daemon.Waiting());
  stoker_batch_release(got.batch);
}

TEST_CASE("the time to come back is counted over all calls", "[client]") {
  TestDaemon daemon;
  Pair pair(daemon, 50'000'000);
  daemon.Stop();
  pair.session.reset();
  Outcome out;
  do {
    out = Next(pair.stream, 1'000'000);
  } while (out.code == STOKER_DEADLINE_EXCEEDED);
  CHECK(out.code == STOKER_UNAVAILABLE);
}

TEST_CASE("without coming back a dead daemon is told at once", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon, -1);
  pair.session.reset();
  CHECK(Next(pair.stream).code == STOKER_UNAVAILABLE);
  CHECK(Next(pair.stream).code == STOKER_UNAVAILABLE);
  char token[STOKER_TOKEN_MAX];
  CHECK(stoker_stream_token(pair.stream, token, sizeof(token)) == STOKER_OK);
}

TEST_CASE("a daemon that stops is come back to, a stream that was closed is not", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon, kPatience);
  SECTION("closed") {
    pair.session->Say(shm::MessageType::kClosing, STOKER_NOT_FOUND, "the stream was closed");
    pair.session->Push(shm::ClosingWord());
    const Outcome out = Next(pair.stream);
    CHECK(out.code == STOKER_NOT_FOUND);
    CHECK(out.text == "the stream was closed");
  }
  SECTION("stopping") {
    pair.session->Say(shm::MessageType::kClosing, STOKER_UNAVAILABLE, "stopping");
    pair.session->Push(shm::ClosingWord());
    auto later = std::async(std::launch::async, [&] { return Next(pair.stream); });
    TestSession again = daemon.Accept();
    CHECK(pair.session->SeesEnd());  // or the old attachment would hold the rank
    again.Welcome();
    again.Deliver(0, 1, 0);
    const Outcome got = later.get();
    CHECK(got.code == STOKER_OK);
    stoker_batch_release(got.batch);
    pair.session.emplace(std::move(again));
  }
}

TEST_CASE("a batch outlives its stream", "[client]") {
  const TestDaemon daemon;
  Outcome got;
  {
    Pair pair(daemon);
    pair.session->Deliver(0, 1, 0);
    got = Next(pair.stream);
  }
  stoker_tensor x;
  REQUIRE(stoker_batch_tensor(got.batch, 0, &x) == STOKER_OK);
  CHECK(static_cast<const float*>(x.data)[1] == 1.f);
  stoker_batch_release(got.batch);
}

TEST_CASE("batches released by many threads go back once each", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  std::multiset<std::uint64_t> want;
  std::multiset<std::uint64_t> have;
  for (std::uint32_t round = 1; round <= 200; ++round) {
    std::vector<std::thread> threads;
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      pair.session->Deliver(slot, round, 0);
      want.insert(BatchWord(slot, round));
      stoker_batch* batch = Next(pair.stream).batch;
      stoker_batch_retain(batch);
      for (int i = 0; i < 2; ++i) threads.emplace_back([batch] { stoker_batch_release(batch); });
    }
    for (auto& thread : threads) thread.join();
    while (const std::uint64_t word = pair.session->Returned()) have.insert(word);
  }
  CHECK(have == want);
}

std::set<void*> Mailboxes() {
  std::set<void*> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("stoker-mailbox") == std::string::npos) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel prints addresses
    out.insert(reinterpret_cast<void*>(std::stoull(line, nullptr, 16)));
  }
  return out;
}

// In the child of a fork: 0 where all is as stoker.h says.
int BehavesAsAFork(stoker_stream* stream, stoker_batch* batch, const std::set<void*>& mailboxes) {
  // The client's mailbox is not here. What the child maps in its place is the child's.
  std::vector<int*> own;
  const std::set<void*> left = Mailboxes();
  for (void* address : mailboxes) {
    if (left.count(address) != 0) continue;
    void* mine = mmap(address, shm::kMailboxBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mine == MAP_FAILED) return 1;
    own.push_back(static_cast<int*>(mine));
    *own.back() = 42;
  }
  if (own.size() != 1) return 2;
  stoker_batch* other = nullptr;
  if (stoker_next(stream, 0, &other) != STOKER_FAILED_PRECONDITION) return 3;
  stoker_tensor x;
  if (stoker_batch_tensor(batch, 0, &x) != STOKER_OK) return 4;
  if (static_cast<const float*>(x.data)[1] != 1.f) return 5;
  stoker_batch_release(batch);
  stoker_stream_close(stream);
  return *own.back() == 42 ? 0 : 6;
}

TEST_CASE("a fork reads, gives nothing back, and touches nothing that is not its own", "[client]") {
  const TestDaemon daemon;
  Pair pair(daemon);
  pair.session->Deliver(0, 1, 0);
  const Outcome got = Next(pair.stream);
  REQUIRE(got.code == STOKER_OK);
  const std::set<void*> mailboxes = Mailboxes();
  const pid_t child = fork();
  if (child == 0) _exit(BehavesAsAFork(pair.stream, got.batch, mailboxes));
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(pair.session->Returned() == 0);
  pair.session->Deliver(1, 1, 1);
  const Outcome next = Next(pair.stream);
  CHECK(next.code == STOKER_OK);
  stoker_batch_release(next.batch);
  stoker_batch_release(got.batch);
  CHECK(pair.session->Returned() == BatchWord(1, 1));
  CHECK(pair.session->Returned() == BatchWord(0, 1));
}

TEST_CASE("a closed stream's socket ends although a child lives that no handler ran in",
          "[client]") {
  const TestDaemon daemon;
  int hold[2];
  REQUIRE(pipe(hold) == 0);
  pid_t child = -1;
  {
    Pair pair(daemon);
    child = _Fork();
    if (child == 0) {
      close(hold[1]);
      char byte;
      _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    stoker_stream_close(pair.stream);
    pair.stream = nullptr;
    CHECK(pair.session->SeesEnd());
  }
  close(hold[0]);
  close(hold[1]);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("options of an older header are taken, with defaults for what it did not know",
          "[client]") {
  const TestDaemon daemon;
  auto attached = std::async(std::launch::async, [path = daemon.socket()] {
    stoker_attach_options options = {};
    options.struct_bytes = offsetof(stoker_attach_options, token);
    options.socket_path = path.c_str();
    options.stream_name = "test";
    options.token = "beyond the caller's struct";
    Outcome out = {};
    out.code = stoker_attach(&options, &out.stream);
    return out;
  });
  TestSession session = daemon.Accept();
  CHECK(session.token.empty());
  CHECK(session.ask.world_size == 1);
  session.Welcome();
  const Outcome out = attached.get();
  REQUIRE(out.code == STOKER_OK);
  stoker_stream_close(out.stream);
}

TEST_CASE("the socket is found in STOKER_RUNTIME_DIR", "[client]") {
  const TestDaemon daemon;
  const std::string path = daemon.socket();
  REQUIRE(setenv("STOKER_RUNTIME_DIR", path.substr(0, path.rfind('/')).c_str(), 1) == 0);
  auto attached = std::async(std::launch::async, [] {
    stoker_attach_options options = {};
    options.struct_bytes = sizeof(options);
    options.stream_name = "test";
    Outcome out = {};
    out.code = stoker_attach(&options, &out.stream);
    return out;
  });
  TestSession session = daemon.Accept();
  session.Welcome();
  const Outcome out = attached.get();
  unsetenv("STOKER_RUNTIME_DIR");
  REQUIRE(out.code == STOKER_OK);
  stoker_stream_close(out.stream);
}

}  // namespace
}  // namespace stoker
