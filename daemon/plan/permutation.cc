#include "daemon/plan/permutation.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace stoker::plan {
namespace {

// A keyed hash of a digit, in [0, base). Bases are below 2^32, so 32 good bits are enough.
inline std::uint64_t HashBelow(std::uint64_t digit, std::uint64_t key, std::uint64_t base) {
  std::uint64_t x = (digit ^ key) * 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xBF58476D1CE4E5B9u;
  return ((x >> 32) * base) >> 32;
}

inline std::uint64_t AddBelow(std::uint64_t a, std::uint64_t b, std::uint64_t base) {
  const std::uint64_t sum = a + b;
  return sum < base ? sum : sum - base;
}

// The least r with r * r >= n. The first guess comes from floating point, the answer does not.
std::uint64_t CeilSqrt(std::uint64_t n) {
  auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (r * r < n) ++r;
  while ((r - 1) * (r - 1) >= n) --r;
  return r;
}

}  // namespace

Permutation::Permutation(std::uint64_t n, RowRandom keys) : n_(n) {
  if (n <= kTiny) {
    std::iota(tiny_.begin(), tiny_.end(), std::uint8_t{0});
    for (std::uint64_t i = n - 1; i >= 1; --i) std::swap(tiny_[i], tiny_[keys.Below(i + 1)]);
    return;
  }
  left_base_ = CeilSqrt(n);
  right_base_ = (n + left_base_ - 1) / left_base_;
  for (std::uint64_t& key : keys_) key = keys.Next64();
}

inline std::uint64_t Permutation::Pass(std::uint64_t left, std::uint64_t right) const {
  for (int round = 0; round < kHalfRounds; round += 2) {
    left = AddBelow(left, HashBelow(right, keys_[round], left_base_), left_base_);
    right = AddBelow(right, HashBelow(left, keys_[round + 1], right_base_), right_base_);
  }
  return left * right_base_ + right;
}

std::uint64_t Permutation::At(std::uint64_t i) const {
  if (n_ <= kTiny) return tiny_[i];
  do {
    i = Pass(i / right_base_, i % right_base_);
  } while (i >= n_);
  return i;
}

void Permutation::Run(std::uint64_t first, std::span<std::int64_t> out,
                      std::uint64_t offset) const {
  if (n_ <= kTiny) {
    for (std::int64_t& x : out) x = static_cast<std::int64_t>(offset + tiny_[first++]);
    return;
  }
  // Counting in digits saves the division that a split of each number would cost.
  std::uint64_t left = first / right_base_;
  std::uint64_t right = first % right_base_;
  for (std::int64_t& x : out) {
    std::uint64_t image = Pass(left, right);
    if (image >= n_) [[unlikely]]
      image = At(image);
    x = static_cast<std::int64_t>(offset + image);
    if (++right == right_base_) {
      right = 0;
      ++left;
    }
  }
}

}  // namespace stoker::plan
