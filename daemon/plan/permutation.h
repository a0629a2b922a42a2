// Permutation: a keyed permutation of [0, n), evaluated at any place in O(1) with no memory.
//
// A Feistel network over the smallest power of two that holds n, walked until the value falls
// below n (fewer than two steps on average). A network over a handful of values cannot reach all
// orders, so up to kSmall values are shuffled outright (Fisher-Yates) into the object itself.
// Integers only: equal on every machine.
//
// Thread-safety: immutable once made. docs/design/order.md describes keys and rounds.
#pragma once

#include <array>
#include <cstdint>

namespace stoker::plan {

class Permutation {
 public:
  static constexpr std::uint64_t kSmall = 64;

  // What the numbers are for: two purposes never share a key.
  enum class Purpose : std::uint32_t { kGlobal = 1, kShards = 2, kWindow = 3, kSpare = 4 };

  // `a` and `b` name the permutation among those of one purpose: epoch, and window or row.
  Permutation(std::uint64_t n, std::uint64_t seed, Purpose purpose, std::uint64_t a,
              std::uint64_t b);

  // REQUIRES: i < n.
  std::uint64_t At(std::uint64_t i) const {
    if (n_ <= kSmall) return small_[i];
    do {
      i = Mix(i);
    } while (i >= n_);
    return i;
  }

 private:
  static constexpr int kRounds = 8;

  std::uint64_t Mix(std::uint64_t value) const {
    std::uint64_t high = value >> low_bits_;
    std::uint64_t low = value & low_mask_;
    for (int round = 0; round < kRounds; round += 2) {
      high ^= Scramble(low + keys_[static_cast<std::size_t>(round)]) & high_mask_;
      low ^= Scramble(high + keys_[static_cast<std::size_t>(round) + 1]) & low_mask_;
    }
    return high << low_bits_ | low;
  }
  static std::uint64_t Scramble(std::uint64_t v) {
    v *= 0x9e3779b97f4a7c15ull;
    v ^= v >> 32;
    v *= 0xd6e8feb86659fd93ull;
    return v >> 31;
  }

  std::uint64_t n_;
  int low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
  std::array<std::uint8_t, kSmall> small_{};
};

}  // namespace stoker::plan
