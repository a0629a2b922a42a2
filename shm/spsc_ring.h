// SpscRing: a queue of 64-bit words in memory that two processes share.
//
// One side pushes and one side pops; which side is which is fixed for the ring's life. The ring
// holds no pointer, no lock and nothing that a constructor must run for: a zeroed page is a valid
// empty ring, and a side may die between any two instructions.
//
// Trust: neither side believes the other. The peer's cursor is bounded before it is used; a peer
//   that breaks the rules is answered kCorrupt, never with a wild access.
// Lifetime: an attach gets a fresh ring. A side that restarts never rejoins an old one.
// Thread-safety: one pusher thread and one popper thread, in one process or in two.
// Blocking: never. Waiting belongs to the mailbox's doorbells.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stoker::shm {

inline constexpr std::size_t kRingWords = 1024;  // a power of two; the cursors wrap freely

// Each cursor has a line of its own: the pusher's stores do not evict the popper's line.
struct RingMemory {
  alignas(64) std::atomic<std::uint32_t> tail;  // written by the pusher only
  alignas(64) std::atomic<std::uint32_t> head;  // written by the popper only
  alignas(64) std::uint64_t words[kRingWords];
};
static_assert(sizeof(RingMemory) == 2 * 64 + kRingWords * 8);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

enum class RingResult { kOk, kEmpty, kFull, kCorrupt };

class SpscPusher {
 public:
  // Borrows `ring`, which must stay mapped while this object lives.
  explicit SpscPusher(RingMemory* ring) noexcept : ring_(ring) {}

  // Appends `word`, or reports kFull. The word and all that the caller wrote before are visible
  // to the popper that takes it (release here, acquire in Pop).
  [[nodiscard]] RingResult Push(std::uint64_t word) noexcept {
    const std::uint32_t used = Used();
    if (used > kRingWords) return RingResult::kCorrupt;
    if (used == kRingWords) return RingResult::kFull;
    ring_->words[tail_ % kRingWords] = word;
    ring_->tail.store(++tail_, std::memory_order_release);
    return RingResult::kOk;
  }

  // Words that the popper has not taken; above kRingWords where it broke the rules.
  std::uint32_t Used() const noexcept {
    return tail_ - ring_->head.load(std::memory_order_acquire);
  }

 private:
  RingMemory* ring_;
  std::uint32_t tail_ = 0;  // our own cursor is kept here: the shared copy is for the peer
};

class SpscPopper {
 public:
  explicit SpscPopper(RingMemory* ring) noexcept : ring_(ring) {}

  [[nodiscard]] RingResult Pop(std::uint64_t* word) noexcept {
    const std::uint32_t tail = ring_->tail.load(std::memory_order_acquire);
    const std::uint32_t ready = tail - head_;
    if (ready > kRingWords) return RingResult::kCorrupt;
    if (ready == 0) return RingResult::kEmpty;
    *word = ring_->words[head_ % kRingWords];
    ring_->head.store(++head_, std::memory_order_release);
    return RingResult::kOk;
  }

  // Words that lie in the ring; above kRingWords where the pusher broke the rules.
  std::uint32_t Ready() const noexcept {
    return ring_->tail.load(std::memory_order_acquire) - head_;
  }

 private:
  RingMemory* ring_;
  std::uint32_t head_ = 0;
};

}  // namespace stoker::shm
