#include "client/cli/shuffle_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>
#include <vector>

namespace stoker::cli {
namespace {

// Standard deviations from chance that are no chance any more.
constexpr double kSigmas = 6;
constexpr std::size_t kLeastRows = 32;
constexpr double kSorted = 0.95;

// Each value's place among the sorted ones.
std::vector<std::uint64_t> Ranks(std::span<const std::int64_t> values) {
  std::vector<std::uint64_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<std::uint64_t> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

double Spearman(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += d * d;
  }
  const auto n = static_cast<double>(a.size());
  return a.size() < 2 ? 0 : 1 - 6 * squares / (n * (n * n - 1));
}

EpochMixing Mix(std::span<const std::int64_t> rows, std::uint64_t records) {
  EpochMixing out;
  const auto n = static_cast<double>(rows.size());
  if (rows.size() < 2) return out;
  const auto ranks = Ranks(rows);
  std::vector<std::uint64_t> places(rows.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  out.rank_correlation = Spearman(ranks, places);
  std::vector<std::int64_t> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end());
  double steps = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    out.neighbours += sorted[i] == sorted[i - 1] + 1 ? 1 : 0;
    steps += std::fabs(static_cast<double>(ranks[i]) - static_cast<double>(ranks[i - 1]));
  }
  out.neighbours_expected = n * (n - 1) / static_cast<double>(std::max<std::uint64_t>(records, 1));
  out.step = steps / (n - 1) / ((n + 1) / 3);
  return out;
}

std::string Text(const char* format, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof(text), format, a, b);
  return text;
}

// What is no chance in one epoch, or "".
std::string Weakness(const EpochMixing& epoch, std::size_t rows) {
  const auto n = static_cast<double>(rows);
  if (std::fabs(epoch.rank_correlation) > kSigmas / std::sqrt(n - 1)) {
    return Text("rows follow their order in the data: rank correlation %.3f, chance gives %.3f",
                epoch.rank_correlation, 1 / std::sqrt(n - 1));
  }
  const double most =
      epoch.neighbours_expected + kSigmas * std::sqrt(epoch.neighbours_expected) + 3;
  if (static_cast<double>(epoch.neighbours) > most) {
    return Text("%.0f pairs of rows are neighbours in the data, chance gives %.1f",
                static_cast<double>(epoch.neighbours), epoch.neighbours_expected);
  }
  if (epoch.step < 1 - kSigmas / std::sqrt(n)) {
    return Text("the step from row to row is %.2f of what chance gives; %.2f would do", epoch.step,
                1 - kSigmas / std::sqrt(n));
  }
  return "";
}

void Judge(std::span<const std::int64_t> first, std::span<const std::int64_t> second,
           std::uint64_t records, ShuffleStats* out) {
  const std::size_t n = std::min(first.size(), second.size());
  if (n < kLeastRows) {
    out->verdict = ShuffleVerdict::kTooFewRows;
    out->reason =
        std::to_string(n) + " rows tell nothing; " + std::to_string(kLeastRows) + " are needed";
    return;
  }
  const bool same = std::equal(first.begin(), first.end(), second.begin(), second.end());
  if (out->first.rank_correlation > kSorted && out->second.rank_correlation > kSorted) {
    out->verdict = ShuffleVerdict::kNotShuffled;
    out->reason = "rows come as they are stored";
    return;
  }
  if (same) {
    out->verdict = ShuffleVerdict::kSameEveryEpoch;
    out->reason = "both epochs begin with the same rows in the same order";
    return;
  }
  const auto a = static_cast<double>(first.size());
  const auto b = static_cast<double>(second.size());
  const auto all = static_cast<double>(records);
  const double variance = records < 2 ? 0 : a * (b / all) * (1 - b / all) * (all - a) / (all - 1);
  const double most = out->overlap_expected + kSigmas * std::sqrt(std::max(variance, 0.0)) + 1;
  out->reason = Weakness(out->first, first.size());
  if (out->reason.empty()) out->reason = Weakness(out->second, second.size());
  if (out->reason.empty() && static_cast<double>(out->overlap) > most) {
    out->reason = Text("%.0f rows are in both epochs' beginnings, chance gives %.1f",
                       static_cast<double>(out->overlap), out->overlap_expected);
  }
  if (out->reason.empty() && out->rank_correlation &&
      std::fabs(*out->rank_correlation) >
          kSigmas / std::sqrt(std::max(1.0, static_cast<double>(out->overlap) - 1))) {
    out->reason = Text("the rows in both come in a like order: rank correlation %.3f%.0s",
                       *out->rank_correlation, 0.0);
  }
  out->verdict = out->reason.empty() ? ShuffleVerdict::kShuffled : ShuffleVerdict::kWeaklyShuffled;
  if (out->reason.empty()) out->reason = "nothing differs from chance";
}

}  // namespace

const char* VerdictName(ShuffleVerdict verdict) {
  switch (verdict) {
    case ShuffleVerdict::kShuffled:
      return "shuffled";
    case ShuffleVerdict::kWeaklyShuffled:
      return "weakly-shuffled";
    case ShuffleVerdict::kSameEveryEpoch:
      return "same-every-epoch";
    case ShuffleVerdict::kNotShuffled:
      return "not-shuffled";
    case ShuffleVerdict::kTooFewRows:
      break;
  }
  return "too-few-rows";
}

ShuffleStats CompareEpochs(std::span<const std::int64_t> first,
                           std::span<const std::int64_t> second, std::uint64_t records) {
  ShuffleStats out;
  out.first = Mix(first, records);
  out.second = Mix(second, records);
  std::unordered_map<std::int64_t, std::int64_t> place;
  for (std::size_t i = 0; i < second.size(); ++i) place[second[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> in_second;  // places, in the first's order
  for (const std::int64_t row : first) {
    if (const auto found = place.find(row); found != place.end())
      in_second.push_back(found->second);
  }
  out.overlap = in_second.size();
  out.overlap_expected = static_cast<double>(first.size()) * static_cast<double>(second.size()) /
                         static_cast<double>(std::max<std::uint64_t>(records, 1));
  if (in_second.size() >= 3) {
    std::vector<std::uint64_t> in_first(in_second.size());
    for (std::size_t i = 0; i < in_first.size(); ++i) in_first[i] = i;
    out.rank_correlation = Spearman(in_first, Ranks(in_second));
  }
  Judge(first, second, records, &out);
  return out;
}

}  // namespace stoker::cli
