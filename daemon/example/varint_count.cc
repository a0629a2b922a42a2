#include "daemon/example/varint_count.h"

#include <emmintrin.h>

#include <bit>

namespace stoker::example {
namespace {

constexpr int kLongestVarint = 10;

}  // namespace

std::int64_t CountVarintsOfMany(std::span<const std::byte> chunk) {
  const auto* p = reinterpret_cast<const unsigned char*>(chunk.data());
  const std::size_t n = chunk.size();
  if (n == 0) return 0;
  if ((p[n - 1] & 0x80) != 0) return -1;
  std::size_t i = 0;
  std::int64_t ends = 0;
  bool long_ones = false;
  for (; i + 16 <= n; i += 16) {
    const auto block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
    const auto more = static_cast<unsigned>(_mm_movemask_epi8(block));
    ends += 16 - std::popcount(more);
    long_ones = long_ones || more != 0;
  }
  for (; i < n; ++i) {
    ends += p[i] < 0x80 ? 1 : 0;
    long_ones = long_ones || p[i] >= 0x80;
  }
  if (!long_ones) return ends;
  int run = 0;
  for (std::size_t k = 0; k < n; ++k) {
    run = p[k] >= 0x80 ? run + 1 : 0;
    if (run >= kLongestVarint) return -1;
  }
  return ends;
}

}  // namespace stoker::example
