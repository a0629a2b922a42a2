#include "daemon/plan/epoch_plan.h"

#include <algorithm>
#include <bit>
#include <string>

namespace stoker::plan {
namespace {

constexpr std::size_t kSequencesKept = 4;

std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Result<std::shared_ptr<const EpochPlan>> EpochPlan::Make(
    const OrderOptions& options, const std::vector<std::uint64_t>& records) {
  std::shared_ptr<EpochPlan> plan(new EpochPlan(options));
  std::uint64_t total = 0;
  for (const std::uint64_t count : records) {
    plan->starts_.push_back(total);
    total += count;
  }
  plan->starts_.push_back(total);

  // Selected index i is record split_part + split_of * i; skip and take cut the range of i.
  const std::uint64_t of = options.split_of;
  const std::uint64_t part = options.split_part;
  const std::uint64_t of_split = total > part ? CeilDiv(total - part, of) : 0;
  const std::uint64_t begin = std::min(options.skip, of_split);
  const std::uint64_t end = begin + std::min(options.take.value_or(of_split), of_split - begin);
  plan->rows_ = end - begin;
  if (plan->rows_ == 0) {
    return Status(Code::kInvalidArgument,
                  "order selects no row: " + std::to_string(total) + " records, " +
                      std::to_string(of_split) + " after split, skip is " +
                      std::to_string(options.skip));
  }
  for (std::size_t s = 0; s < records.size(); ++s) {
    const auto index_at = [&](std::uint64_t number) {
      return std::clamp(number > part ? CeilDiv(number - part, of) : 0, begin, end);
    };
    const std::uint64_t first = index_at(plan->starts_[s]);
    plan->firsts_.push_back(first);
    plan->selected_.push_back(index_at(plan->starts_[s + 1]) - first);
  }

  // A table from the number's leading bits to a shard at or before it.
  const auto buckets = std::bit_ceil(std::max<std::uint64_t>(1, 4 * records.size()));
  plan->hint_shift_ = std::max(0, static_cast<int>(std::bit_width(total)) -
                                      static_cast<int>(std::bit_width(buckets)) + 1);
  std::uint32_t shard = 0;
  for (std::uint64_t number = 0; number < total; number += std::uint64_t{1} << plan->hint_shift_) {
    while (plan->starts_[shard + 1] <= number) ++shard;
    plan->hints_.push_back(shard);
  }
  if (options.shuffle == Shuffle::kNone) plan->only_ = plan->MakeSequence(0);
  return std::shared_ptr<const EpochPlan>(std::move(plan));
}

// The record of selected index `index` + skip, in manifest order.
RowId EpochPlan::Selected(std::uint64_t index) const {
  const std::uint64_t number =
      options_.split_part + std::uint64_t{options_.split_of} * (options_.skip + index);
  std::uint32_t shard = hints_[number >> hint_shift_];
  while (starts_[shard + 1] <= number) ++shard;
  return MakeRowId(shard, number - starts_[shard]);
}

RowId EpochPlan::InShard(std::uint32_t shard, std::uint64_t index) const {
  const std::uint64_t number =
      options_.split_part + std::uint64_t{options_.split_of} * (firsts_[shard] + index);
  return MakeRowId(shard, number - starts_[shard]);
}

RowId EpochPlan::InSequence(const Sequence& sequence, std::uint64_t position) const {
  const auto place = sequence.interleave.At(position);
  return InShard(sequence.shards[place.shard], place.record);
}

void EpochPlan::Rows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) const {
  const std::uint64_t key = KeyEpoch(epoch);
  switch (options_.shuffle) {
    case Shuffle::kGlobal: {
      const Permutation permutation(rows_, options_.seed, Permutation::Purpose::kGlobal, key, 0);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = Selected(permutation.At(first + i));
      return;
    }
    case Shuffle::kNone: {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = InSequence(*only_, first + i);
      return;
    }
    case Shuffle::kWindow: {
      const auto sequence = SequenceOf(key);
      for (std::size_t i = 0; i < out.size();) {
        const std::uint64_t window = (first + i) / options_.window_rows;
        const std::uint64_t begin = window * options_.window_rows;
        const std::uint64_t size = std::min(options_.window_rows, rows_ - begin);
        const Permutation permutation(size, options_.seed, Permutation::Purpose::kWindow, key,
                                      window);
        for (; i < out.size() && first + i < begin + size; ++i) {
          out[i] = InSequence(*sequence, begin + permutation.At(first + i - begin));
        }
      }
      return;
    }
  }
}

RowId EpochPlan::Spare(std::uint64_t epoch, std::uint64_t row, std::uint32_t k) const {
  const Permutation permutation(rows_, options_.seed, Permutation::Purpose::kSpare, epoch, row);
  return Selected(permutation.At((k - 1) % rows_));
}

std::shared_ptr<const EpochPlan::Sequence> EpochPlan::MakeSequence(std::uint64_t epoch) const {
  const std::size_t n = selected_.size();
  std::vector<std::uint32_t> shards(n);
  const Permutation permutation(n, options_.seed, Permutation::Purpose::kShards, epoch, 0);
  for (std::size_t i = 0; i < n; ++i) {
    shards[i] = static_cast<std::uint32_t>(
        options_.shuffle == Shuffle::kWindow ? permutation.At(i) : i);
  }
  std::vector<std::uint64_t> counts(n);
  for (std::size_t i = 0; i < n; ++i) counts[i] = selected_[shards[i]];
  return std::make_shared<const Sequence>(
      Sequence{std::move(shards), Interleave(counts, options_.cycle, options_.block)});
}

std::shared_ptr<const EpochPlan::Sequence> EpochPlan::SequenceOf(std::uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  for (const auto& [of, sequence] : recent_) {
    if (of == epoch) return sequence;
  }
  recent_.emplace_back(epoch, MakeSequence(epoch));
  if (recent_.size() > kSequencesKept) recent_.pop_front();
  return recent_.back().second;
}

std::uint64_t EpochPlan::memory_bytes() const {
  std::uint64_t bytes = 8 * (starts_.size() + firsts_.size() + selected_.size()) + 4 * hints_.size();
  const auto sequence = only_ != nullptr                           ? only_
                        : options_.shuffle == Shuffle::kWindow ? SequenceOf(0)
                                                               : nullptr;
  if (sequence == nullptr) return bytes;
  const std::uint64_t one = sequence->interleave.memory_bytes() + 4 * sequence->shards.size();
  return bytes + one * (only_ != nullptr ? 1 : kSequencesKept);
}

}  // namespace stoker::plan
