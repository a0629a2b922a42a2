#include "daemon/plan/selection.h"

#include <algorithm>
#include <string>

namespace stoker::plan {
namespace {

std::string Describe(const SelectOptions& o, std::uint64_t records, std::size_t shards) {
  std::string text = std::to_string(records) + " records in " + std::to_string(shards) +
                     (shards == 1 ? " shard" : " shards");
  if (o.split_of != 1) {
    text += ", split part " + std::to_string(o.split_part) + " of " + std::to_string(o.split_of);
  }
  if (o.skip != 0) text += ", skip " + std::to_string(o.skip);
  if (o.take) text += ", take " + std::to_string(*o.take);
  return text;
}

Status Check(const SelectOptions& o, std::span<const std::uint64_t> shard_records) {
  if (o.split_of == 0 || o.split_part >= o.split_of) {
    return Status(Code::kInvalidArgument, "split: part " + std::to_string(o.split_part) +
                                              " is not below of " + std::to_string(o.split_of));
  }
  if (shard_records.size() > kMaxShards) {
    return Status(Code::kInvalidArgument, std::to_string(shard_records.size()) +
                                              " shards are more than " +
                                              std::to_string(kMaxShards));
  }
  for (std::size_t s = 0; s < shard_records.size(); ++s) {
    if (shard_records[s] > kMaxRecordsOfShard) {
      return Status(Code::kInvalidArgument, "shard " + std::to_string(s) + " has " +
                                                std::to_string(shard_records[s]) +
                                                " records, more than 2^40");
    }
  }
  return Status();
}

// How many numbers below `end` are `part` modulo `of`.
std::uint64_t CountBelow(std::uint64_t end, std::uint64_t of, std::uint64_t part) {
  return end > part ? (end - part - 1) / of + 1 : 0;
}

}  // namespace

Result<Selection> Selection::Make(const SelectOptions& options,
                                  std::span<const std::uint64_t> shard_records) {
  STOKER_TRY(Check(options, shard_records));
  std::uint64_t records = 0;
  for (const std::uint64_t n : shard_records) records += n;

  const std::uint64_t of = options.split_of;
  const std::uint64_t split = CountBelow(records, of, options.split_part);
  const std::uint64_t after_skip = split - std::min(split, options.skip);
  const std::uint64_t rows = std::min(after_skip, options.take.value_or(after_skip));
  if (rows == 0) {
    return Status(Code::kInvalidArgument,
                  "the order has 0 rows: " + Describe(options, records, shard_records.size()));
  }

  Selection selection;
  selection.stride_ = of;
  selection.shards_.reserve(shard_records.size() + 1);
  std::uint64_t begin = 0;  // the shard's first record, as a number in manifest order
  for (std::size_t s = 0; s <= shard_records.size(); ++s) {
    const std::uint64_t kept = CountBelow(begin, of, options.split_part);
    const std::uint64_t start = std::min(kept - std::min(kept, options.skip), rows);
    const std::uint64_t number = options.split_part + of * (options.skip + start);
    selection.shards_.push_back({start, number >= begin ? number - begin : 0});
    if (s < shard_records.size()) begin += shard_records[s];
  }
  selection.BuildBuckets();
  return selection;
}

void Selection::BuildBuckets() {
  // About two buckets a shard: where shards are alike, a bucket meets one border at most.
  const std::uint64_t wanted = 2 * std::bit_ceil(shards());
  while ((rows() - 1) >> bucket_shift_ >= wanted) ++bucket_shift_;
  const std::uint64_t count = ((rows() - 1) >> bucket_shift_) + 2;
  buckets_.resize(count);
  std::uint64_t shard = 0;
  for (std::uint64_t b = 0; b < count; ++b) {
    const std::uint64_t number = std::min(b << bucket_shift_, rows() - 1);
    while (shard + 1 < shards() && shards_[shard + 1].start <= number) ++shard;
    buckets_[b] = static_cast<std::uint32_t>(shard);
  }
}

void Selection::Run(std::uint64_t first, std::span<RowId> out) const {
  if (out.empty()) return;
  std::uint64_t shard = Find(first);
  for (std::size_t done = 0; done < out.size(); ++shard) {
    const std::uint64_t n = first + done - shards_[shard].start;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size() - done, RowsOf(shard) - n));
    RowId id = InShard(shard, n);
    for (std::size_t i = 0; i < count; ++i) {
      out[done + i] = id;
      id += static_cast<RowId>(stride_);
    }
    done += count;
  }
}

std::uint64_t Selection::memory_bytes() const {
  return shards_.capacity() * sizeof(Shard) + buckets_.capacity() * sizeof(std::uint32_t);
}

}  // namespace stoker::plan
