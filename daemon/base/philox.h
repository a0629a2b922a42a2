// Philox: the counter-based random numbers of rows (Philox 4x32-10 of Salmon et al., 2011), and
// RowRandom, the sequence that one op of one row draws from.
//
// A draw is a pure function of (seed, row id, epoch, op number, draw number). Batch, rank, world
// size and worker never enter, so a row's augmentation is the same wherever and whenever it is
// computed. docs/design/order.md gives the layout of key and counter; changing it changes every
// augmented batch.
//
// Ownership: none; plain values. Thread-safety: Philox is pure; a RowRandom belongs to one thread.
// Blocking: never. Errors: none.
#pragma once

#include <array>
#include <cstdint>

namespace stoker {

// Op numbers of row programs are below this; those from here to 4095 belong to the plan.
inline constexpr std::uint32_t kRowOps = 4080;

struct Philox {
  // Four random words for a counter, under a key.
  static constexpr std::array<std::uint32_t, 4> Block(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
      counter = {
          static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    return counter;
  }
};

class RowRandom {
 public:
  // `op` is below 4096. The counter's 20 draw bits number blocks of four words: four million
  // words for one op of one row, and then the sequence repeats.
  constexpr RowRandom(std::uint64_t seed, std::int64_t row_id, std::uint32_t epoch,
                      std::uint32_t op)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{static_cast<std::uint32_t>(row_id),
                 static_cast<std::uint32_t>(static_cast<std::uint64_t>(row_id) >> 32), epoch,
                 op << kDrawBits} {}

  constexpr std::uint32_t Next() {
    if (used_ == 4) Refill();
    return words_[used_++];
  }

  // The low word is drawn first.
  constexpr std::uint64_t Next64() {
    const std::uint64_t low = Next();
    return low | std::uint64_t{Next()} << 32;
  }

  // Uniform over the 2^24 multiples of 2^-24 in [0, 1): each is exact in float32.
  constexpr float NextFloat() { return static_cast<float>(Next() >> 8) * 0x1p-24f; }

  // Uniform over [0, n), without bias. REQUIRES: n >= 1. May draw more than once: a draw from the
  // uneven end of the range is thrown away.
  constexpr std::uint64_t Below(std::uint64_t n) {
    if (n <= (std::uint64_t{1} << 32)) {
      const std::uint64_t uneven = (std::uint64_t{1} << 32) % n;
      while (true) {
        const std::uint64_t product = std::uint64_t{Next()} * n;
        if ((product & 0xffffffffu) >= uneven) return product >> 32;
      }
    }
    const std::uint64_t uneven = (std::uint64_t{0} - n) % n;  // 2^64 mod n
    while (true) {
      const std::uint64_t draw = Next64();
      if (draw >= uneven) return draw % n;
    }
  }

 private:
  static constexpr int kDrawBits = 20;
  static constexpr std::uint32_t kDrawMask = (1u << kDrawBits) - 1;

  constexpr void Refill() {
    words_ = Philox::Block(counter_, key_);
    counter_[3] = (counter_[3] & ~kDrawMask) | ((counter_[3] + 1) & kDrawMask);
    used_ = 0;
  }

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  std::uint32_t used_ = 4;
};

}  // namespace stoker
