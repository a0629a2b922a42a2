// Interleave: TensorFlow's deterministic interleave as random access.
//
// `cycle` places are visited in turn; a visit takes `block` records of the place's shard. A shard
// that ends leaves its place empty for the rest of that visit, and the next shard is opened there
// when the cycle comes back. A shard of c records so keeps its place for c / block + 1 visits, the
// last of which gives c % block records (perhaps none). Between two ends every round gives `block`
// records of each open shard, so the sequence is a list of stretches, at most two for each shard,
// and any position is found by binary search.
//
// Thread-safety: immutable once made. Memory: at most 2 * shards * cycle words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker::plan {

class Interleave {
 public:
  struct Place {
    std::uint32_t shard;    // place in the order given
    std::uint64_t record;   // of its selected records
  };

  // `counts` are the records of each shard, in the order in which they are opened.
  Interleave(std::span<const std::uint64_t> counts, std::uint32_t cycle, std::uint32_t block);

  std::uint64_t rows() const { return rows_; }
  Place At(std::uint64_t position) const;
  std::uint64_t memory_bytes() const;

 private:
  struct Open {
    std::uint32_t shard;
    std::uint64_t since;  // the round in which it was opened
    std::uint64_t last;   // the round in which it ends
  };
  struct Stretch {
    std::uint64_t first;        // position
    std::uint64_t first_round;
    std::uint64_t open_begin;   // in open_
    std::uint32_t open_count;
    bool whole;                 // every visit gives a whole block
  };

  void AddStretch(std::uint64_t round, bool whole, std::uint64_t rows,
                  const std::vector<Open>& places);
  std::uint64_t Given(const Open& open, std::uint64_t round) const;

  std::vector<std::uint64_t> counts_;
  const std::uint64_t block_;
  std::vector<Stretch> stretches_;
  std::vector<Open> open_;
  std::uint64_t rows_ = 0;
};

}  // namespace stoker::plan
