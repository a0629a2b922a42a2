// ShuffleStats: how well two epochs' first rows are mixed, against what chance would give.
//
// Thread-safety: plain functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stoker::cli {

enum class ShuffleVerdict {
  kShuffled,
  kWeaklyShuffled,  // rows that lie together in the data still come together
  kSameEveryEpoch,
  kNotShuffled,
  kTooFewRows,
};
// "shuffled", "weakly-shuffled", "same-every-epoch", "not-shuffled", "too-few-rows".
const char* VerdictName(ShuffleVerdict verdict);

// One epoch's first rows.
struct EpochMixing {
  // Spearman's correlation of the rows' places in the epoch with their places in the data.
  double rank_correlation = 0;
  // Pairs of rows that are neighbours in the data, and how many chance gives.
  std::uint64_t neighbours = 0;
  double neighbours_expected = 0;
  // Mean step in the data from one row to the next, over what chance gives: 1 where well mixed.
  double step = 0;
};

struct ShuffleStats {
  EpochMixing first;
  EpochMixing second;
  // Rows in both, and how many chance gives.
  std::uint64_t overlap = 0;
  double overlap_expected = 0;
  // Of the places of the rows in both; absent below three.
  std::optional<double> rank_correlation;
  ShuffleVerdict verdict = ShuffleVerdict::kTooFewRows;
  std::string reason;  // what decided it, in words
};

// Row ids of the first rows of two epochs, in delivered order, each id once, of `records` rows.
ShuffleStats CompareEpochs(std::span<const std::int64_t> first,
                           std::span<const std::int64_t> second, std::uint64_t records);

}  // namespace stoker::cli
