#include "daemon/plan/interleave.h"

#include <algorithm>
#include <limits>

namespace stoker::plan {
namespace {

constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// Records that a visit in `round` gives.
std::uint64_t Interleave::Given(const Open& open, std::uint64_t round) const {
  return round == open.last ? counts_[open.shard] % block_ : block_;
}

Interleave::Interleave(std::span<const std::uint64_t> counts, std::uint32_t cycle,
                       std::uint32_t block)
    : counts_(counts.begin(), counts.end()), block_(block) {
  std::vector<Open> places(std::min<std::size_t>(cycle, counts.size()), Open{kEmpty, 0, 0});
  std::uint32_t next = 0;
  std::uint64_t round = 0;
  while (true) {
    std::uint64_t first_end = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t open = 0;
    for (Open& place : places) {
      if (place.shard == kEmpty && next < counts_.size()) {
        place = {next, round, round + counts_[next] / block_};
        ++next;
      }
      if (place.shard == kEmpty) continue;
      first_end = std::min(first_end, place.last);
      ++open;
    }
    if (open == 0) break;
    AddStretch(round, true, (first_end - round) * open * block_, places);
    std::uint64_t rows = 0;
    for (const Open& place : places) {
      if (place.shard != kEmpty) rows += Given(place, first_end);
    }
    AddStretch(first_end, false, rows, places);
    for (Open& place : places) {
      if (place.shard != kEmpty && place.last == first_end) place.shard = kEmpty;
    }
    round = first_end + 1;
  }
}

void Interleave::AddStretch(std::uint64_t round, bool whole, std::uint64_t rows,
                            const std::vector<Open>& places) {
  if (rows == 0) return;
  Stretch stretch = {rows_, round, open_.size(), 0, whole};
  for (const Open& place : places) {
    if (place.shard == kEmpty) continue;
    open_.push_back(place);
    ++stretch.open_count;
  }
  stretches_.push_back(stretch);
  rows_ += rows;
}

Interleave::Place Interleave::At(std::uint64_t position) const {
  const auto after = std::upper_bound(
      stretches_.begin(), stretches_.end(), position,
      [](std::uint64_t p, const Stretch& stretch) { return p < stretch.first; });
  const Stretch& stretch = *(after - 1);
  std::uint64_t at = position - stretch.first;
  const Open* open = open_.data() + stretch.open_begin;
  std::uint64_t round = stretch.first_round;
  if (stretch.whole) {
    const std::uint64_t per_round = stretch.open_count * block_;
    round += at / per_round;
    at %= per_round;
    open += at / block_;
    at %= block_;
  } else {
    while (at >= Given(*open, round)) at -= Given(*open++, round);
  }
  return {open->shard, (round - open->since) * block_ + at};
}

std::uint64_t Interleave::memory_bytes() const {
  return counts_.size() * sizeof(counts_[0]) + stretches_.size() * sizeof(Stretch) +
         open_.size() * sizeof(Open);
}

}  // namespace stoker::plan
