// What an augmentation relies on: the published generator, one sequence for each (seed, row,
// epoch, op), and draws without bias.
#include "daemon/base/philox.h"

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/catch.h"

namespace stoker {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The three published known answers of Random123 for philox4x32 with 10 rounds.
TEST_CASE("Philox gives the published known answers", "[base][philox]") {
  CHECK(Philox::Block({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(Philox::Block({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
                      {0xffffffffu, 0xffffffffu}) ==
        Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(Philox::Block({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
                      {0xa4093822u, 0x299f31d0u}) ==
        Words{0xd16cfe09u, 0x94fdcceb, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("the counter holds row id, epoch, op and draw in that order", "[base][philox]") {
  const std::uint64_t seed = 0x299f31d0a4093822u;
  RowRandom random(seed, 0x0000000500000009, 3, 7);
  const Words first = Philox::Block({9, 5, 3, 7u << 20}, {0xa4093822u, 0x299f31d0u});
  const Words second = Philox::Block({9, 5, 3, (7u << 20) + 1}, {0xa4093822u, 0x299f31d0u});
  for (const std::uint32_t word : first) CHECK(random.Next() == word);
  for (const std::uint32_t word : second) CHECK(random.Next() == word);
}

TEST_CASE("seed, row, epoch and op each give another sequence", "[base][philox]") {
  std::set<std::uint64_t> firsts;
  std::size_t sequences = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
      for (const std::uint32_t epoch : {0u, 1u, 0xffffffffu}) {
        for (const std::uint32_t op : {0u, 1u, 4095u}) {
          firsts.insert(RowRandom(seed, row, epoch, op).Next64());
          ++sequences;
        }
      }
    }
  }
  CHECK(firsts.size() == sequences);
}

TEST_CASE("floats are multiples of 2^-24 below one, evenly spread", "[base][philox]") {
  RowRandom random(7, 0, 0, 0);
  std::array<int, 16> bins{};
  for (int i = 0; i < 16000; ++i) {
    const float value = random.NextFloat();
    REQUIRE(value >= 0.0f);
    REQUIRE(value < 1.0f);
    REQUIRE(value * 0x1p24f == static_cast<float>(static_cast<std::uint32_t>(value * 0x1p24f)));
    ++bins[static_cast<std::size_t>(value * 16)];
  }
  double chi = 0;
  for (const int n : bins) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  CHECK(chi < 37.7);  // 15 degrees of freedom, one in a thousand
}

TEST_CASE("Below is even over any range", "[base][philox]") {
  for (const std::uint64_t n : {1u, 2u, 3u, 7u, 10u}) {
    CAPTURE(n);
    RowRandom random(11, static_cast<std::int64_t>(n), 0, 0);
    std::vector<int> bins(n);
    for (std::uint64_t i = 0; i < n * 1000; ++i) ++bins[random.Below(n)];
    double chi = 0;
    for (const int count : bins) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(chi < 27.9);  // 9 degrees of freedom, one in a thousand
  }
  RowRandom random(11, 0, 0, 1);
  const std::uint64_t wide = (std::uint64_t{3} << 62) + 1;
  int high = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t value = random.Below(wide);
    REQUIRE(value < wide);
    high += value >= std::uint64_t{1} << 63;
  }
  CHECK(high > 850);  // a third of 3000; a plain remainder would give a quarter
  CHECK(high < 1150);
  CHECK(RowRandom(1, 2, 3, 4).Below(std::uint64_t{1} << 32) == RowRandom(1, 2, 3, 4).Next());
}

}  // namespace
}  // namespace stoker
