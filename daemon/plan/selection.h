// Selection: which records an epoch draws from, numbered from 0 in manifest order.
//
// Split keeps the records whose number in manifest order is `part` modulo `of`, then `skip` are
// left out, then at most `take` are kept. So each shard contributes an arithmetic progression of
// records, and a selected number becomes a row id in O(1) after its shard is found; the shard is
// found by a table of buckets. The order works on selected numbers alone and never sees this.
//
// Ownership: owns its tables, 24 bytes a shard. Thread-safety: immutable. Blocking: never.
// Errors: Make refuses an empty selection and counts that a row id cannot hold.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/plan/row_id.h"

namespace stoker::plan {

struct SelectOptions {
  std::uint32_t split_of = 1;
  std::uint32_t split_part = 0;
  std::uint64_t skip = 0;
  std::optional<std::uint64_t> take;
};

class Selection {
 public:
  static Result<Selection> Make(const SelectOptions& options,
                                std::span<const std::uint64_t> shard_records);

  std::uint64_t rows() const { return shards_.back().start; }
  std::uint64_t shards() const { return shards_.size() - 1; }
  std::uint64_t RowsOf(std::uint64_t shard) const {
    return shards_[shard + 1].start - shards_[shard].start;
  }

  // The n-th selected record of a shard. REQUIRES: n < RowsOf(shard).
  RowId InShard(std::uint64_t shard, std::uint64_t n) const {
    return MakeRowId(shard, shards_[shard].first_record + stride_ * n);
  }
  std::uint64_t stride() const { return stride_; }

  // The row id of a selected number. REQUIRES: number < rows().
  RowId At(std::uint64_t number) const {
    const std::uint64_t shard = Find(number);
    return InShard(shard, number - shards_[shard].start);
  }
  // Turns selected numbers into row ids, in place.
  void Locate(std::span<std::int64_t> numbers) const {
    for (std::int64_t& x : numbers) x = At(static_cast<std::uint64_t>(x));
  }
  // The row ids of the numbers from `first` on.
  void Run(std::uint64_t first, std::span<RowId> out) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Shard {
    std::uint64_t start;         // the number of its first selected record
    std::uint64_t first_record;  // that record's place in the shard
  };

  // The last shard that starts at or before `number`: empty shards are passed over.
  std::uint64_t Find(std::uint64_t number) const {
    std::uint64_t low = buckets_[number >> bucket_shift_];
    std::uint64_t high = buckets_[(number >> bucket_shift_) + 1] + std::uint64_t{1};
    while (high - low > 1) {
      const std::uint64_t middle = (low + high) / 2;
      if (shards_[middle].start <= number) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  void BuildBuckets();

  std::vector<Shard> shards_;  // one more than there are shards: the end
  std::vector<std::uint32_t> buckets_;
  int bucket_shift_ = 0;
  std::uint64_t stride_ = 1;
};

}  // namespace stoker::plan
