// EpochPlan: "global row i of epoch e is record r of shard k", as a pure function.
//
// Records are selected first, in manifest order: split, then skip, then take. GLOBAL permutes the
// selection. NONE interleaves the shards' selected records; WINDOW permutes the shards, interleaves
// them, cuts the sequence into windows and permutes each. docs/design/order.md tells it in full.
//
// Ownership: shared; immutable but for a small cache of WINDOW's tables, which is locked.
// Thread-safety: any thread. Rows() allocates nothing but the first time in an epoch of WINDOW.
// Errors: Make() answers kInvalidArgument where nothing is selected, with the numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/plan/interleave.h"
#include "daemon/plan/permutation.h"
#include "daemon/plan/row_id.h"

namespace stoker::plan {

enum class Shuffle : std::uint8_t { kNone, kWindow, kGlobal };

struct OrderOptions {
  Shuffle shuffle = Shuffle::kNone;
  std::uint64_t seed = 0;
  bool reshuffle = true;  // false: every epoch has the first one's order
  std::uint64_t window_rows = 10000;
  std::uint32_t cycle = 1;
  std::uint32_t block = 1;
  std::uint32_t split_of = 1;
  std::uint32_t split_part = 0;
  std::uint64_t skip = 0;
  std::optional<std::uint64_t> take;
};

class EpochPlan {
 public:
  static Result<std::shared_ptr<const EpochPlan>> Make(const OrderOptions& options,
                                                       const std::vector<std::uint64_t>& records);

  std::uint64_t rows() const { return rows_; }

  // Writes the ids of global rows [first, first + out.size()) of `epoch`.
  // REQUIRES: first + out.size() <= rows().
  void Rows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) const;

  // The k-th spare of a row, k from 1: what may stand in for it where its record is bad.
  RowId Spare(std::uint64_t epoch, std::uint64_t row, std::uint32_t k) const;

  std::uint64_t memory_bytes() const;

 private:
  // One epoch's sequence of shards.
  struct Sequence {
    std::vector<std::uint32_t> shards;  // place in the sequence: shard of the manifest
    Interleave interleave;
  };

  explicit EpochPlan(const OrderOptions& options) : options_(options) {}

  std::uint64_t KeyEpoch(std::uint64_t epoch) const { return options_.reshuffle ? epoch : 0; }
  RowId Selected(std::uint64_t index) const;
  RowId InShard(std::uint32_t shard, std::uint64_t index) const;
  std::shared_ptr<const Sequence> SequenceOf(std::uint64_t epoch) const;
  std::shared_ptr<const Sequence> MakeSequence(std::uint64_t epoch) const;
  RowId InSequence(const Sequence& sequence, std::uint64_t position) const;

  const OrderOptions options_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> starts_;    // shard: the number of its first record; one more at the end
  std::vector<std::uint64_t> firsts_;    // shard: the first selected index in it
  std::vector<std::uint64_t> selected_;  // shard: how many of its records are selected
  std::vector<std::uint32_t> hints_;     // number >> hint_shift_: a shard at or before it
  int hint_shift_ = 0;

  std::shared_ptr<const Sequence> only_;  // NONE
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<std::uint64_t, std::shared_ptr<const Sequence>>> recent_;
};

}  // namespace stoker::plan
