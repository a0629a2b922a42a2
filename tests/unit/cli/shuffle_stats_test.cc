#include "client/cli/shuffle_stats.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "daemon/base/philox.h"
#include "tests/support/catch.h"

using stoker::cli::CompareEpochs;
using stoker::cli::ShuffleVerdict;

namespace {

using Rows = std::vector<std::int64_t>;

Rows Stored(std::int64_t count) {
  Rows rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Rows Shuffled(std::int64_t count, std::uint64_t seed) {
  Rows rows = Stored(count);
  stoker::RowRandom random(seed, 0, 0, 0);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.Below(i)]);
  return rows;
}

// Each block shuffled in itself.
Rows Windowed(std::int64_t count, std::size_t window, std::uint64_t seed) {
  Rows rows = Stored(count);
  stoker::RowRandom random(seed, 0, 0, 0);
  for (std::size_t begin = 0; begin < rows.size(); begin += window) {
    for (std::size_t i = std::min(window, rows.size() - begin); i > 1; --i) {
      std::swap(rows[begin + i - 1], rows[begin + random.Below(i)]);
    }
  }
  return rows;
}

Rows First(Rows rows, std::size_t count) {
  rows.resize(count);
  return rows;
}

ShuffleVerdict Verdict(const Rows& a, const Rows& b, std::uint64_t records) {
  return CompareEpochs(a, b, records).verdict;
}

}  // namespace

TEST_CASE("statistics of small sequences are those worked out by hand") {
  const Rows a = {2, 0, 1, 7, 9};
  const Rows b = {1, 7, 3, 2, 8};
  const auto stats = CompareEpochs(a, b, 10);
  // Ranks of a: 2 0 1 3 4 against 0 1 2 3 4: squares 4 + 1 + 1, so 1 - 36/120.
  CHECK(stats.first.rank_correlation == 0.7);
  CHECK(stats.first.neighbours == 2);  // 0 1 and 1 2
  CHECK(stats.first.neighbours_expected == 2.0);
  // Steps 2 1 2 1, mean 1.5, over (5 + 1) / 3.
  CHECK(stats.first.step == 0.75);
  CHECK(stats.overlap == 3);  // 2 1 7
  CHECK(stats.overlap_expected == 2.5);
  // In b they come as 1 7 2: ranks 2 0 1 against 0 1 2, so 1 - 6 * 6 / 24.
  CHECK(stats.rank_correlation == -0.5);
  CHECK(stats.verdict == ShuffleVerdict::kTooFewRows);
}

TEST_CASE("true shuffles pass, whole or by their beginnings") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Rows a = Shuffled(5000, 2 * seed);
    const Rows b = Shuffled(5000, 2 * seed + 1);
    CHECK(Verdict(a, b, 5000) == ShuffleVerdict::kShuffled);
    CHECK(Verdict(First(a, 500), First(b, 500), 5000) == ShuffleVerdict::kShuffled);
    CHECK(Verdict(First(a, 40), First(b, 40), 5000) == ShuffleVerdict::kShuffled);
  }
}

TEST_CASE("orders that are no shuffle are called what they are") {
  const Rows stored = Stored(5000);
  const Rows once = Shuffled(5000, 1);
  CHECK(Verdict(stored, stored, 5000) == ShuffleVerdict::kNotShuffled);
  CHECK(Verdict(once, once, 5000) == ShuffleVerdict::kSameEveryEpoch);
  CHECK(Verdict(First(once, 31), First(once, 31), 5000) == ShuffleVerdict::kTooFewRows);
}

TEST_CASE("windows are weak where they are small against the data") {
  const Rows a = Windowed(5000, 100, 1);
  const Rows b = Windowed(5000, 100, 2);
  CHECK(Verdict(First(a, 1000), First(b, 1000), 5000) == ShuffleVerdict::kNotShuffled);
  // A window's beginning looks mixed; its rows all come from one place.
  const Rows wide_a = Windowed(5000, 500, 1);
  const Rows wide_b = Windowed(5000, 500, 2);
  CHECK(Verdict(First(wide_a, 400), First(wide_b, 400), 5000) == ShuffleVerdict::kWeaklyShuffled);
  // Blocks in a drawn order, rows in their own.
  Rows blocks;
  for (const std::int64_t block : Shuffled(50, 3)) {
    for (std::int64_t i = 0; i < 100; ++i) blocks.push_back(block * 100 + i);
  }
  CHECK(Verdict(blocks, Shuffled(5000, 4), 5000) == ShuffleVerdict::kWeaklyShuffled);
}
