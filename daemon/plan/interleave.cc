#include "daemon/plan/interleave.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

namespace stoker::plan {

SlotIndex::SlotIndex(std::span<const std::uint32_t> last_to_die_first)
    : size_(static_cast<std::uint32_t>(last_to_die_first.size())),
      bits_(size_ > 1 ? static_cast<int>(std::bit_width(size_ - 1)) : 0) {
  zeros_.resize(static_cast<std::size_t>(bits_) * (size_ + 1));
  std::vector<std::uint32_t> row(last_to_die_first.begin(), last_to_die_first.end());
  for (int level = 0; level < bits_; ++level) {
    const std::uint32_t mask = 1u << (bits_ - 1 - level);
    std::uint32_t* zeros = &zeros_[static_cast<std::size_t>(level) * (size_ + 1)];
    for (std::uint32_t i = 0; i < size_; ++i) zeros[i + 1] = zeros[i] + ((row[i] & mask) == 0);
    std::stable_partition(row.begin(), row.end(),
                          [mask](std::uint32_t slot) { return (slot & mask) == 0; });
  }
}

std::uint32_t SlotIndex::Select(std::uint32_t prefix, std::uint32_t r) const {
  std::uint32_t low = 0, high = prefix, slot = 0;
  for (int level = 0; level < bits_; ++level) {
    const std::uint32_t zeros_low = ZerosBefore(level, low);
    const std::uint32_t zeros_high = ZerosBefore(level, high);
    slot <<= 1;
    if (r < zeros_high - zeros_low) {
      low = zeros_low;
      high = zeros_high;
    } else {
      const std::uint32_t ones = ZerosBefore(level, size_);
      r -= zeros_high - zeros_low;
      low = ones + low - zeros_low;
      high = ones + high - zeros_high;
      slot |= 1;
    }
  }
  return slot;
}

std::uint32_t SlotIndex::Rank(std::uint32_t prefix, std::uint32_t slot) const {
  std::uint32_t low = 0, high = prefix, rank = 0;
  for (int level = 0; level < bits_; ++level) {
    const std::uint32_t zeros_low = ZerosBefore(level, low);
    const std::uint32_t zeros_high = ZerosBefore(level, high);
    if ((slot >> (bits_ - 1 - level) & 1) == 0) {
      low = zeros_low;
      high = zeros_high;
    } else {
      const std::uint32_t ones = ZerosBefore(level, size_);
      rank += zeros_high - zeros_low;
      low = ones + low - zeros_low;
      high = ones + high - zeros_high;
    }
  }
  return rank;
}

struct Interleave::Ending {
  std::uint64_t round;
  std::uint32_t slot;
  std::uint32_t count;  // records of the last visit
  bool dies;            // no shard was left to open
};

Interleave::Interleave(const Selection& selection, std::span<const std::uint32_t> shard_order,
                       std::uint32_t cycle, std::uint32_t block)
    : selection_(selection),
      slots_(static_cast<std::uint32_t>(std::min<std::uint64_t>(cycle, shard_order.size()))),
      block_(block) {
  std::vector<std::uint32_t> deaths;
  const std::vector<Ending> endings = Simulate(shard_order, &deaths);
  std::reverse(deaths.begin(), deaths.end());
  index_ = SlotIndex(deaths);
  CutPhases(endings);
}

// Plays the openings and endings, which are two a shard, in the order (round, slot).
std::vector<Interleave::Ending> Interleave::Simulate(std::span<const std::uint32_t> shard_order,
                                                     std::vector<std::uint32_t>* deaths) {
  struct Visit {
    std::uint64_t round;
    std::uint32_t slot;
    std::uint32_t last_count;  // what the slot's previous shard gave in its last visit
    bool operator>(const Visit& o) const {
      return std::pair(round, slot) > std::pair(o.round, o.slot);
    }
  };
  std::vector<std::pair<std::uint32_t, Opening>> opened;
  opened.reserve(shard_order.size());
  std::vector<Ending> endings;
  endings.reserve(shard_order.size());
  std::priority_queue<Visit, std::vector<Visit>, std::greater<>> free;
  const auto open = [&](std::uint64_t round, std::uint32_t slot) {
    const std::uint32_t shard = shard_order[opened.size()];
    const std::uint64_t rows = selection_.RowsOf(shard);
    opened.push_back({slot, {round, shard}});
    free.push({round + rows / block_ + 1, slot, static_cast<std::uint32_t>(rows % block_)});
  };

  for (std::uint32_t slot = 0; slot < slots_; ++slot) open(0, slot);
  while (!free.empty()) {
    const Visit visit = free.top();
    free.pop();
    const bool dies = opened.size() == shard_order.size();
    endings.push_back({visit.round - 1, visit.slot, visit.last_count, dies});
    if (dies) {
      deaths->push_back(visit.slot);
    } else {
      open(visit.round, visit.slot);
    }
  }

  slot_begin_.assign(slots_ + std::size_t{1}, 0);
  for (const auto& [slot, opening] : opened) ++slot_begin_[slot + 1];
  for (std::uint32_t slot = 0; slot < slots_; ++slot) slot_begin_[slot + 1] += slot_begin_[slot];
  std::vector<std::uint32_t> next(slot_begin_.begin(), slot_begin_.end() - 1);
  openings_.resize(opened.size());
  for (const auto& [slot, opening] : opened) openings_[next[slot]++] = opening;
  return endings;
}

void Interleave::CutPhases(std::span<const Ending> endings) {
  std::uint64_t position = 0;
  std::uint64_t round = 0;
  std::uint32_t living = slots_;
  phases_.reserve(2 * endings.size() + 1);
  lasts_.reserve(endings.size());
  const auto add = [&] {
    phases_.push_back({position, round, living, static_cast<std::uint32_t>(lasts_.size())});
  };
  for (std::size_t i = 0; i < endings.size();) {
    const std::uint64_t end_round = endings[i].round;
    if (end_round > round) {
      add();
      position += (end_round - round) * living * block_;
      round = end_round;
    }
    // The round of these last visits is a phase of its own, unless nothing is left of it.
    std::uint64_t missing = 0;
    std::uint32_t dead = 0;
    add();
    for (; i < endings.size() && endings[i].round == end_round; ++i) {
      const std::uint32_t rank = index_.Rank(living, endings[i].slot);
      lasts_.push_back({rank * block_ - missing, rank, endings[i].count});
      missing += block_ - endings[i].count;
      dead += endings[i].dies;
    }
    const std::uint64_t rows = living * block_ - missing;
    if (rows == 0) {
      lasts_.resize(phases_.back().first_last);
      phases_.pop_back();
    }
    position += rows;
    living -= dead;
    ++round;
  }
  add();
  phases_.shrink_to_fit();
}

std::size_t Interleave::FindPhase(std::size_t low, std::size_t high, std::uint64_t position) const {
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    if (phases_[middle].position <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

Interleave::Place Interleave::InSlot(std::uint32_t living, std::uint64_t rank, std::uint64_t round,
                                     std::uint64_t within) const {
  const auto r = static_cast<std::uint32_t>(rank);
  const std::uint32_t slot = living == slots_ ? r : index_.Select(living, r);
  std::uint32_t low = slot_begin_[slot];
  std::uint32_t high = slot_begin_[slot + 1];
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (openings_[middle].round <= round) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const Opening& opening = openings_[low];
  return {opening.shard, (round - opening.round) * block_ + within, block_ - within};
}

Interleave::Place Interleave::Find(std::size_t phase_number, std::uint64_t position) const {
  const Phase& phase = phases_[phase_number];
  const std::uint64_t offset = position - phase.position;
  const std::uint32_t first = phase.first_last;
  const std::uint32_t last = phases_[phase_number + 1].first_last;
  if (first == last) {
    const std::uint64_t per_round = phase.living * block_;
    const std::uint64_t in_round = offset % per_round;
    return InSlot(phase.living, in_round / block_, phase.round + offset / per_round,
                  in_round % block_);
  }
  // The last visit that starts at or before the offset; the visits between two are full blocks.
  const auto begin = lasts_.begin() + first;
  const auto after = std::upper_bound(
      begin, lasts_.begin() + last, offset,
      [](std::uint64_t value, const LastVisit& visit) { return value < visit.start; });
  if (after == begin) {
    return InSlot(phase.living, offset / block_, phase.round, offset % block_);
  }
  const LastVisit& visit = *(after - 1);
  if (offset < visit.start + visit.count) {
    const std::uint64_t within = offset - visit.start;
    Place place = InSlot(phase.living, visit.rank, phase.round, within);
    place.left = visit.count - within;
    return place;
  }
  const std::uint64_t beyond = offset - visit.start - visit.count;
  return InSlot(phase.living, visit.rank + 1 + beyond / block_, phase.round, beyond % block_);
}

void Interleave::RunRounds(const Phase& phase, std::uint64_t round, std::uint64_t rounds,
                           RowId* out) const {
  const std::uint64_t per_round = phase.living * block_;
  const auto stride = static_cast<RowId>(selection_.stride());
  for (std::uint32_t rank = 0; rank < phase.living; ++rank) {
    const Place place = InSlot(phase.living, rank, round, 0);
    RowId id = selection_.InShard(place.shard, place.record);
    RowId* to = out + rank * block_;
    for (std::uint64_t r = 0; r < rounds; ++r, to += per_round) {
      for (std::uint64_t i = 0; i < block_; ++i, id += stride) to[i] = id;
    }
  }
}

void Interleave::Run(std::uint64_t first, std::span<RowId> out) const {
  if (out.empty()) return;
  const auto stride = static_cast<RowId>(selection_.stride());
  std::size_t phase = FindPhase(0, phases_.size() - 1, first);
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t position = first + done;
    while (phases_[phase + 1].position <= position) ++phase;
    const std::uint64_t left =
        std::min<std::uint64_t>(out.size() - done, phases_[phase + 1].position - position);
    const Phase& here = phases_[phase];
    const std::uint64_t offset = position - here.position;
    const std::uint64_t per_round = here.living * block_;
    if (here.first_last == phases_[phase + 1].first_last && offset % per_round == 0 &&
        left >= per_round) {
      const std::uint64_t rounds = left / per_round;
      RunRounds(here, here.round + offset / per_round, rounds, out.data() + done);
      done += static_cast<std::size_t>(rounds * per_round);
      continue;
    }
    const Place place = Find(phase, position);
    const auto count = static_cast<std::size_t>(std::min(left, place.left));
    RowId id = selection_.InShard(place.shard, place.record);
    for (std::size_t i = 0; i < count; ++i, id += stride) out[done + i] = id;
    done += count;
  }
}

void Interleave::Gather(std::uint64_t low, std::uint64_t high,
                        std::span<std::int64_t> positions) const {
  const std::size_t first = FindPhase(0, phases_.size() - 1, low);
  const std::size_t end = FindPhase(first, phases_.size() - 1, high - 1) + 1;
  for (std::int64_t& x : positions) {
    const auto position = static_cast<std::uint64_t>(x);
    const Place place = Find(FindPhase(first, end, position), position);
    x = selection_.InShard(place.shard, place.record);
  }
}

std::uint64_t Interleave::memory_bytes() const {
  return sizeof(*this) + phases_.capacity() * sizeof(Phase) +
         lasts_.capacity() * sizeof(LastVisit) + openings_.capacity() * sizeof(Opening) +
         slot_begin_.capacity() * sizeof(std::uint32_t) + index_.memory_bytes();
}

std::uint64_t Interleave::MaxBytes(std::uint64_t shards, std::uint32_t cycle) {
  const std::uint64_t slots = std::min<std::uint64_t>(cycle, shards);
  return sizeof(Interleave) + (2 * shards + 1) * sizeof(Phase) +
         shards * (sizeof(LastVisit) + sizeof(Opening)) + (slots + 1) * sizeof(std::uint32_t) +
         std::bit_width(slots) * (slots + 1) * sizeof(std::uint32_t);
}

}  // namespace stoker::plan
