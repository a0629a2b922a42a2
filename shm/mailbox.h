// Mailbox: what one consumer and the daemon say to each other while batches flow.
//
// A memfd of its own for each consumer, writable by both sides: a ring of delivery words (daemon
// to client), a ring of return words (client to daemon), and two doorbells. A bell is rung only
// where the other side said that it sleeps. docs/formats/mailbox.md is the normative page.
//
// Trust: a client can spoil its own mailbox and nothing else. Each word it writes is bounded and
//   copied once by the ring; what it names is checked against the daemon's own ledger.
// Futexes are shared ones: std::atomic::wait never wakes another process.
#pragma once

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "shm/fd.h"
#include "shm/memfd.h"
#include "shm/spsc_ring.h"

namespace stoker::shm {

inline constexpr std::uint32_t kMailboxMagic = 0x42584d53;  // "SMXB"
inline constexpr std::uint32_t kMailboxVersion = 1;

struct MailboxMemory {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t consumer;                               // its id
  alignas(64) std::atomic<std::uint32_t> bell;          // futex: counts deliveries
  alignas(64) std::atomic<std::uint32_t> client_waits;  // 1: the client sleeps on `bell`
  alignas(64) std::atomic<std::uint32_t> daemon_waits;  // 1: write the eventfd on a return
  RingMemory deliveries;
  RingMemory returns;
};
static_assert(sizeof(MailboxMemory) == 4 * 64 + 2 * sizeof(RingMemory));
inline constexpr std::uint64_t kMailboxBytes = (sizeof(MailboxMemory) + 4095) / 4096 * 4096;

// A word's kind, bits 56 to 63.
enum class WordKind : std::uint8_t {
  kBatch = 1,        // slot and generation
  kEndOfEpoch = 2,   // its number
  kEndOfStream = 3,  // the last epoch's number
  kError = 4,        // an Error message lies on the socket
  kClosing = 5,      // a Closing message lies on the socket
};

// Bits 32 to 55: the slot; bits 0 to 31: its generation.
constexpr std::uint64_t MakeWord(WordKind kind, std::uint64_t low) {
  return static_cast<std::uint64_t>(kind) << 56 | (low & 0xffffffffffffffull);
}
constexpr std::uint64_t BatchWord(std::uint32_t slot, std::uint32_t generation) {
  return MakeWord(WordKind::kBatch, std::uint64_t{slot} << 32 | generation);
}
constexpr std::uint64_t EndOfEpochWord(std::uint64_t epoch) {
  return MakeWord(WordKind::kEndOfEpoch, epoch);
}
constexpr std::uint64_t EndOfStreamWord(std::uint64_t epoch) {
  return MakeWord(WordKind::kEndOfStream, epoch);
}
constexpr std::uint64_t ErrorWord() { return MakeWord(WordKind::kError, 0); }
constexpr std::uint64_t ClosingWord() { return MakeWord(WordKind::kClosing, 0); }
constexpr std::uint8_t KindOfWord(std::uint64_t word) {
  return static_cast<std::uint8_t>(word >> 56);
}
constexpr std::uint32_t SlotOfWord(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32) & 0xffffffu;
}
constexpr std::uint32_t GenerationOfWord(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint64_t EpochOfWord(std::uint64_t word) { return word & 0xffffffffffffffull; }

inline long Futex(std::atomic<std::uint32_t>* word, int op, std::uint32_t value,
                  const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), op, value, timeout, nullptr, 0);
}

// The daemon's side. Movable; one thread at a time.
class DaemonMailbox {
 public:
  DaemonMailbox() = default;

  // Makes memory and eventfd. Invalid, with errno, where the kernel refuses.
  static DaemonMailbox Make(std::uint64_t consumer) {
    DaemonMailbox mailbox;
    mailbox.fd_ = MakeMemfd("stoker-mailbox", kMailboxBytes, Seals::kFinal);
    if (!mailbox.fd_.valid()) return mailbox;
    mailbox.map_ = Mapping::Map(mailbox.fd_.get(), kMailboxBytes, true);
    mailbox.event_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!mailbox.map_.valid() || !mailbox.event_.valid()) return mailbox;
    MailboxMemory* memory = mailbox.memory();
    memory->magic = kMailboxMagic;
    memory->version = kMailboxVersion;
    memory->consumer = consumer;
    mailbox.deliveries_ = SpscPusher(&memory->deliveries);
    mailbox.returns_ = SpscPopper(&memory->returns);
    return mailbox;
  }

  bool valid() const { return map_.valid() && event_.valid(); }
  int memory_fd() const { return fd_.get(); }
  int event_fd() const { return event_.get(); }

  // Pushes a word and wakes the client if it sleeps. False where the ring is full or corrupt.
  bool Deliver(std::uint64_t word) {
    if (deliveries_.Push(word) != RingResult::kOk) return false;
    MailboxMemory* m = memory();
    m->bell.fetch_add(1, std::memory_order_acq_rel);
    // Of this exchange and the client's, the later one sees what the earlier side wrote before.
    if (m->client_waits.exchange(0, std::memory_order_acq_rel) != 0) {
      Futex(&m->bell, FUTEX_WAKE, INT_MAX, nullptr);
    }
    return true;
  }

  RingResult TakeReturn(std::uint64_t* word) { return returns_.Pop(word); }

  // Asks the client to write the eventfd on its next return. Look at the ring once more after it.
  void ArmReturns() { memory()->daemon_waits.exchange(1, std::memory_order_acq_rel); }

  // Delivered words that the client has not taken, at most the ring's size.
  std::uint32_t Undelivered() const {
    const std::uint32_t used = deliveries_.Used();
    return used <= kRingWords ? used : 0;
  }

 private:
  MailboxMemory* memory() const { return reinterpret_cast<MailboxMemory*>(map_.data()); }

  Fd fd_;
  Fd event_;
  Mapping map_;
  SpscPusher deliveries_{nullptr};
  SpscPopper returns_{nullptr};
};

// The client's side over memory that the daemon made. One thread takes; returning is serialised by
// the caller.
class ClientMailbox {
 public:
  ClientMailbox() = default;
  // Borrows `memory` of kMailboxBytes, and the eventfd.
  ClientMailbox(MailboxMemory* memory, int event_fd)
      : memory_(memory),
        event_fd_(event_fd),
        deliveries_(&memory->deliveries),
        returns_(&memory->returns) {}

  RingResult Take(std::uint64_t* word) { return deliveries_.Pop(word); }
  // Delivered words that were not taken, at most the ring's size.
  std::uint32_t Ready() const {
    const std::uint32_t ready = deliveries_.Ready();
    return ready <= kRingWords ? ready : 0;
  }

  // Sleeps until a delivery or for at most `timeout_ns`. May wake early.
  void Wait(std::int64_t timeout_ns) {
    const std::uint32_t seen = memory_->bell.load(std::memory_order_acquire);
    memory_->client_waits.exchange(1, std::memory_order_acq_rel);
    if (memory_->deliveries.tail.load(std::memory_order_acquire) == taken_hint()) {
      const timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
      Futex(&memory_->bell, FUTEX_WAIT, seen, &timeout);
    }
    memory_->client_waits.store(0, std::memory_order_relaxed);
  }

  // Gives a slot back and rings the daemon if it asked for it.
  RingResult Return(std::uint64_t word) {
    const RingResult pushed = returns_.Push(word);
    if (pushed != RingResult::kOk) return pushed;
    if (memory_->daemon_waits.exchange(0, std::memory_order_acq_rel) != 0) {
      const std::uint64_t one = 1;
      while (write(event_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
      }
    }
    return RingResult::kOk;
  }

 private:
  // Our own head: what the ring's tail equals when nothing is left.
  std::uint32_t taken_hint() const {
    return memory_->deliveries.head.load(std::memory_order_relaxed);
  }

  MailboxMemory* memory_ = nullptr;
  int event_fd_ = -1;
  SpscPopper deliveries_{nullptr};
  SpscPusher returns_{nullptr};
};

}  // namespace stoker::shm
