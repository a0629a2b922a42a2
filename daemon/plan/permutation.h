// Permutation: a keyed permutation of [0, n) as a function, without a table.
//
// A number is split into two digits, x = left * b + right, with a and b near the square root of n;
// eight keyed half rounds add a hash of one digit to the other, modulo its base (a Feistel
// network). a * b exceeds n by less than a, so a result outside [0, n) is rare; it is put through
// again until it falls inside (cycle walking), which keeps the map one-to-one. For n up to kTiny,
// where the network would not reach all orders evenly, the order is dealt by Fisher and Yates.
// docs/design/order.md is the definition: another implementation must give the same numbers.
//
// Ownership: a value of about 200 bytes. Thread-safety: immutable. Blocking: never. Errors: none.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/base/philox.h"

namespace stoker::plan {

class Permutation {
 public:
  static constexpr std::uint64_t kTiny = 64;

  // REQUIRES: 1 <= n <= 2^63. `keys` is the sequence that the keys are drawn from.
  Permutation(std::uint64_t n, RowRandom keys);

  // Where i goes. REQUIRES: i < n.
  std::uint64_t At(std::uint64_t i) const;

  // At(first), At(first + 1), … plus `offset`. REQUIRES: first + out.size() <= n.
  void Run(std::uint64_t first, std::span<std::int64_t> out, std::uint64_t offset = 0) const;

 private:
  static constexpr int kHalfRounds = 8;

  // One pass of the network; the result is below a * b.
  std::uint64_t Pass(std::uint64_t left, std::uint64_t right) const;

  std::uint64_t n_;
  std::uint64_t left_base_ = 1;
  std::uint64_t right_base_ = 1;
  std::array<std::uint64_t, kHalfRounds> keys_{};
  std::array<std::uint8_t, kTiny> tiny_{};
};

}  // namespace stoker::plan
