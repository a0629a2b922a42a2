// EpochPlan: which record is global row i of epoch e.
//
// GLOBAL   row i is the selected record perm(i).
// WINDOW   shards permuted, then interleaved; the sequence is cut into windows and row i is the
//          record at the permuted place of its window. Windows span shards.
// NONE     the interleaved sequence itself; with a cycle of 1, the records as stored.
// docs/design/order.md defines each of them to the bit.
//
// Ownership: shared; owns its tables. Under WINDOW the tables of the last kEpochsKept epochs are
//   kept, and a call for another epoch builds one. Other calls allocate nothing.
// Thread-safety: all methods from any thread. A pure function of options, counts, epoch and row.
// Blocking: Rows under WINDOW waits for a table of its epoch that another thread is building.
// Errors: Make alone; kInvalidArgument, with the numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/plan/row_id.h"

namespace stoker::plan {

enum class Shuffle : std::uint8_t { kNone, kWindow, kGlobal };

struct OrderOptions {
  Shuffle shuffle = Shuffle::kNone;
  std::uint64_t seed = 0;
  bool reshuffle = true;  // a new order each epoch
  std::uint64_t window_rows = 10000;
  std::uint32_t cycle = 0;  // 0: 1 under NONE, 16 under WINDOW; without meaning under GLOBAL
  std::uint32_t block = 1;
  // Selection, in this order: split, skip, take.
  std::uint32_t split_of = 1;
  std::uint32_t split_part = 0;
  std::uint64_t skip = 0;
  std::optional<std::uint64_t> take;
};

class EpochPlan {
 public:
  static constexpr int kEpochsKept = 3;
  static constexpr std::uint32_t kSpares = 16;

  // Refuses an order of no rows. `shard_records` are the counts in manifest order.
  static Result<std::shared_ptr<const EpochPlan>> Make(const OrderOptions& options,
                                                       std::vector<std::uint64_t> shard_records);
  ~EpochPlan();
  EpochPlan(const EpochPlan&) = delete;
  EpochPlan& operator=(const EpochPlan&) = delete;

  // Of each epoch, after split, skip and take; 1 or more.
  std::uint64_t rows() const;

  // Writes the row ids of global rows [first, first + out.size()) of `epoch`.
  // REQUIRES: first + out.size() <= rows().
  void Rows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) const;

  // The k-th spare of a row, for a bad row that is replaced: drawn from the selected records, all
  // different while there are that many. REQUIRES: 1 <= k <= kSpares.
  RowId Spare(std::uint64_t epoch, std::uint64_t row, std::uint32_t k) const;

  // The most that this plan holds at a time.
  std::uint64_t memory_bytes() const;

 private:
  struct Impl;
  explicit EpochPlan(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::plan
