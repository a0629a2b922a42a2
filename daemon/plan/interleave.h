// Interleave: TensorFlow's deterministic interleave as a function of the position.
//
// `cycle` slots are visited in turn; a visit takes up to `block` records of the slot's shard. A
// visit that finds fewer than `block` is the shard's last (it may find none), and the slot opens
// the next shard only when the cycle returns to it; when there is none left the slot is dead and
// passed over. A shard of n records so lives for n / block + 1 rounds of the cycle.
//
// The table cuts the rounds into phases in which every visit is a full block, and single rounds
// in which some visit is a last one. Its size grows with the shards alone, not with cycle times
// shards: which shard a slot holds is looked up in the slot's own history, and which slot is the
// r-th living one in an index over the order in which slots die.
//
// Ownership: borrows the Selection; owns its tables. Thread-safety: immutable. Blocking: never.
// Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/plan/row_id.h"
#include "daemon/plan/selection.h"

namespace stoker::plan {

// Living slots as a prefix of the order "dies last first": rank and select inside a prefix, in
// the logarithm of the number of slots (a wavelet matrix).
class SlotIndex {
 public:
  SlotIndex() = default;
  explicit SlotIndex(std::span<const std::uint32_t> last_to_die_first);

  // The r-th smallest slot among the first `prefix`. REQUIRES: r < prefix.
  std::uint32_t Select(std::uint32_t prefix, std::uint32_t r) const;
  // How many of the first `prefix` are smaller than `slot`.
  std::uint32_t Rank(std::uint32_t prefix, std::uint32_t slot) const;
  std::uint64_t memory_bytes() const { return zeros_.capacity() * sizeof(std::uint32_t); }

 private:
  // zeros_[level * (size_ + 1) + i]: how many of the level's first i entries have a clear bit.
  std::uint32_t ZerosBefore(int level, std::uint32_t i) const {
    return zeros_[static_cast<std::size_t>(level) * (size_ + 1) + i];
  }

  std::uint32_t size_ = 0;
  int bits_ = 0;
  std::vector<std::uint32_t> zeros_;
};

class Interleave {
 public:
  // `shard_order` is the order in which shards are opened. REQUIRES: cycle and block 1 or more.
  Interleave(const Selection& selection, std::span<const std::uint32_t> shard_order,
             std::uint32_t cycle, std::uint32_t block);
  Interleave(const Interleave&) = delete;
  Interleave& operator=(const Interleave&) = delete;

  // The row ids of the positions from `first` on.
  void Run(std::uint64_t first, std::span<RowId> out) const;
  // Turns positions, all in [low, high), into row ids, in place.
  void Gather(std::uint64_t low, std::uint64_t high, std::span<std::int64_t> positions) const;

  std::uint64_t memory_bytes() const;
  // The most that a table can take.
  static std::uint64_t MaxBytes(std::uint64_t shards, std::uint32_t cycle);

 private:
  struct Phase {
    std::uint64_t position;    // of its first record
    std::uint64_t round;       // its first
    std::uint32_t living;      // slots
    std::uint32_t first_last;  // its last visits are lasts_[first_last …] up to the next phase's
  };
  struct LastVisit {
    std::uint64_t start;  // offset in its round
    std::uint32_t rank;   // of its slot among the living
    std::uint32_t count;  // below block
  };
  struct Opening {
    std::uint64_t round;
    std::uint32_t shard;
  };
  struct Ending;  // what the build knows of a last visit
  // A run of records of one shard that follow each other at a position.
  struct Place {
    std::uint32_t shard;
    std::uint64_t record;
    std::uint64_t left;  // records from here on in this visit
  };

  std::vector<Ending> Simulate(std::span<const std::uint32_t> shard_order,
                               std::vector<std::uint32_t>* deaths);
  void CutPhases(std::span<const Ending> endings);
  std::size_t FindPhase(std::size_t low, std::size_t high, std::uint64_t position) const;
  Place Find(std::size_t phase, std::uint64_t position) const;
  Place InSlot(std::uint32_t living, std::uint64_t rank, std::uint64_t round,
               std::uint64_t within) const;
  // Writes whole rounds of a phase without last visits: one look-up a slot, not one a record.
  void RunRounds(const Phase& phase, std::uint64_t round, std::uint64_t rounds, RowId* out) const;

  const Selection& selection_;
  std::uint32_t slots_;
  std::uint64_t block_;
  std::vector<Phase> phases_;  // and one more: the end
  std::vector<LastVisit> lasts_;
  std::vector<Opening> openings_;          // grouped by slot
  std::vector<std::uint32_t> slot_begin_;  // of the slot's openings; one more than slots
  SlotIndex index_;
};

}  // namespace stoker::plan
