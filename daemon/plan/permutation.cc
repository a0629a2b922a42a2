#include "daemon/plan/permutation.h"

#include <bit>
#include <utility>

#include "daemon/base/philox.h"

namespace stoker::plan {

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, Purpose purpose, std::uint64_t a,
                         std::uint64_t b)
    : n_(n) {
  // Keys come from Philox under the seed; the counter names purpose and permutation. Epochs are
  // below 2^40 in any run, windows and rows below 2^56.
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  const auto block = [&](std::uint32_t draw) {
    return Philox::Block({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                          static_cast<std::uint32_t>(a),
                          0x80000000u | static_cast<std::uint32_t>(purpose) << 24 |
                              static_cast<std::uint32_t>(a >> 32) << 16 | draw},
                         key);
  };
  if (n <= kSmall) {
    for (std::uint64_t i = 0; i < n; ++i) small_[i] = static_cast<std::uint8_t>(i);
    for (std::uint64_t i = n; i > 1; --i) {
      const auto words = block(static_cast<std::uint32_t>(i));
      const std::uint64_t draw = std::uint64_t{words[0]} << 32 | words[1];
      // 64 bits over at most 64 places: the bias is below 2^-58.
      const auto j = static_cast<std::uint64_t>((static_cast<unsigned __int128>(draw) * i) >> 64);
      std::swap(small_[i - 1], small_[j]);
    }
    return;
  }
  const int bits = std::bit_width(n - 1);
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  for (std::uint32_t i = 0; i < kRounds; i += 2) {
    const auto words = block(i);
    keys_[i] = std::uint64_t{words[0]} << 32 | words[1];
    keys_[i + 1] = std::uint64_t{words[2]} << 32 | words[3];
  }
}

}  // namespace stoker::plan
