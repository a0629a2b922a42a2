// Words between two sides that do not trust each other.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "shm/mailbox.h"
#include "tests/support/catch.h"

namespace stoker::shm {
namespace {

TEST_CASE("words come out as they went in, and a full ring says so", "[shm]") {
  auto ring = std::make_unique<RingMemory>();
  SpscPusher pusher(ring.get());
  SpscPopper popper(ring.get());
  std::uint64_t word = 0;
  CHECK(popper.Pop(&word) == RingResult::kEmpty);
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < kRingWords; ++i) REQUIRE(pusher.Push(i * 3) == RingResult::kOk);
    CHECK(pusher.Push(1) == RingResult::kFull);
    for (std::uint64_t i = 0; i < kRingWords; ++i) {
      REQUIRE(popper.Pop(&word) == RingResult::kOk);
      REQUIRE(word == i * 3);
    }
  }
}

TEST_CASE("a peer's wild cursor is corrupt, never a wild access", "[shm]") {
  auto ring = std::make_unique<RingMemory>();
  SpscPusher pusher(ring.get());
  SpscPopper popper(ring.get());
  std::uint64_t word = 0;
  for (const std::uint32_t wild : {1025u, 0x80000000u, 0xfffffff0u}) {
    ring->tail = wild;
    CHECK(popper.Pop(&word) == RingResult::kCorrupt);
  }
  for (const std::uint32_t wild : {1u, 0x80000000u, 0x7ffffff0u}) {
    ring->head = wild;
    CHECK(pusher.Push(1) == RingResult::kCorrupt);
  }
}

TEST_CASE("a word carries slot and generation whole", "[shm]") {
  const std::uint64_t word = BatchWord(0xabcdef, 0x12345678);
  CHECK(KindOfWord(word) == static_cast<std::uint8_t>(WordKind::kBatch));
  CHECK(SlotOfWord(word) == 0xabcdef);
  CHECK(GenerationOfWord(word) == 0x12345678);
  CHECK(EpochOfWord(EndOfEpochWord(1ull << 40)) == 1ull << 40);
}

TEST_CASE("no wake-up is lost between two threads over one mapping", "[shm]") {
  DaemonMailbox daemon = DaemonMailbox::Make(1);
  REQUIRE(daemon.valid());
  const Mapping map = Mapping::Map(daemon.memory_fd(), kMailboxBytes, true);
  REQUIRE(map.valid());
  ClientMailbox client(reinterpret_cast<MailboxMemory*>(map.data()), daemon.event_fd());
  constexpr std::uint64_t kWords = 20000;
  std::thread trainer([&] {
    for (std::uint64_t next = 0; next < kWords;) {
      std::uint64_t word = 0;
      if (client.Take(&word) != RingResult::kOk) {
        client.Wait(60'000'000'000);
        continue;
      }
      if (word != next++) std::abort();
      while (client.Return(word) != RingResult::kOk) std::this_thread::yield();
    }
  });
  std::uint64_t returned = 0;
  for (std::uint64_t i = 0; i < kWords; ++i) {
    while (!daemon.Deliver(i)) std::this_thread::yield();
    std::uint64_t word = 0;
    while (daemon.TakeReturn(&word) == RingResult::kOk) ++returned;
  }
  trainer.join();
  std::uint64_t word = 0;
  while (daemon.TakeReturn(&word) == RingResult::kOk) ++returned;
  CHECK(returned == kWords);
}

TEST_CASE("a client in another process is woken, and rings when it was asked to", "[shm]") {
  DaemonMailbox daemon = DaemonMailbox::Make(1);
  REQUIRE(daemon.valid());
  daemon.ArmReturns();
  const pid_t child = fork();
  if (child == 0) {
    const Mapping map = Mapping::Map(daemon.memory_fd(), kMailboxBytes, true);
    ClientMailbox client(reinterpret_cast<MailboxMemory*>(map.data()), daemon.event_fd());
    std::uint64_t word = 0;
    while (client.Take(&word) != RingResult::kOk) client.Wait(60'000'000'000);
    _exit(word == BatchWord(3, 4) && client.Return(word) == RingResult::kOk ? 0 : 1);
  }
  REQUIRE(daemon.Deliver(BatchWord(3, 4)));
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  std::uint64_t rung = 0;
  CHECK(read(daemon.event_fd(), &rung, sizeof(rung)) == sizeof(rung));
  CHECK(rung == 1);
  std::uint64_t word = 0;
  CHECK(daemon.TakeReturn(&word) == RingResult::kOk);
}

TEST_CASE("the mailbox is laid out as its page says", "[shm][golden]") {
  CHECK(offsetof(MailboxMemory, consumer) == 8);
  CHECK(offsetof(MailboxMemory, bell) == 64);
  CHECK(offsetof(MailboxMemory, client_waits) == 128);
  CHECK(offsetof(MailboxMemory, daemon_waits) == 192);
  CHECK(offsetof(MailboxMemory, deliveries) == 256);
  CHECK(offsetof(MailboxMemory, returns) == 256 + 128 + 8192);
  CHECK(kMailboxBytes == 20480);
  CHECK(BatchWord(2, 7) == 0x0100000200000007ull);
  CHECK(EndOfEpochWord(5) == 0x0200000000000005ull);
  CHECK(EndOfStreamWord(5) == 0x0300000000000005ull);
  CHECK(ErrorWord() == 0x0400000000000000ull);
  CHECK(ClosingWord() == 0x0500000000000000ull);
}

}  // namespace
}  // namespace stoker::shm
