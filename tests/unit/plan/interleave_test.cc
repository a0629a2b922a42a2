// The interleave is TensorFlow's, at any place and in any piece.
#include "daemon/plan/interleave.h"

#include <deque>
#include <random>

#include "tests/unit/plan/plans.h"

namespace stoker::plan {
namespace {

// The operator played step by step, from its description: slots in turn, up to `block` records a
// visit; a slot whose shard ends is empty until the cycle returns to it.
std::vector<RowId> Play(const std::vector<std::uint64_t>& shards, std::size_t cycle,
                        std::uint64_t block) {
  struct Slot {
    bool open = false;
    std::uint64_t shard = 0, next = 0;
  };
  std::vector<RowId> out;
  std::vector<Slot> slots(cycle);
  std::size_t next_shard = 0;
  std::size_t open = 0;
  for (std::size_t at = 0; open > 0 || next_shard < shards.size(); at = (at + 1) % cycle) {
    Slot& slot = slots[at];
    if (!slot.open) {
      if (next_shard == shards.size()) continue;
      slot = {true, next_shard++, 0};
      ++open;
    }
    for (std::uint64_t i = 0; i < block; ++i) {
      if (slot.next == shards[slot.shard]) {
        slot.open = false;
        --open;
        break;
      }
      out.push_back(MakeRowId(slot.shard, slot.next++));
    }
  }
  return out;
}

Plan Interleaved(std::vector<std::uint64_t> shards, std::uint32_t cycle, std::uint32_t block) {
  OrderOptions options;
  options.cycle = cycle;
  options.block = block;
  return MakePlan(options, std::move(shards));
}

TEST_CASE("two slots take turns, and an ended shard's place waits for its turn",
          "[plan][interleave]") {
  // Shard 0 ends in its only visit; slot 0 opens shard 2 a round later.
  CHECK(Epoch(Interleaved({1, 3, 2}, 2, 2), 0) ==
        std::vector<RowId>{MakeRowId(0, 0), MakeRowId(1, 0), MakeRowId(1, 1), MakeRowId(2, 0),
                           MakeRowId(2, 1), MakeRowId(1, 2)});
}

TEST_CASE("the interleave equals the operator played step by step",
          "[plan][interleave][property]") {
  std::mt19937_64 draw(17);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::uint64_t> shards(1 + draw() % 40);
    const std::uint64_t longest = 1 + draw() % 60;
    for (auto& n : shards) n = draw() % 4 == 0 ? 0 : draw() % longest;
    shards[draw() % shards.size()] += 1;
    const auto cycle = static_cast<std::uint32_t>(1 + draw() % 12);
    const auto block = static_cast<std::uint32_t>(1 + draw() % 9);
    CAPTURE(round, shards, cycle, block);
    REQUIRE(Epoch(Interleaved(shards, cycle, block), 0) == Play(shards, cycle, block));
  }
}

TEST_CASE("a cycle of more slots than shards, and a block of more than any shard",
          "[plan][interleave]") {
  const std::vector<std::uint64_t> shards = {3, 0, 5, 1};
  CHECK(Epoch(Interleaved(shards, 4000000000u, 1), 0) == Play(shards, 4, 1));
  CHECK(Epoch(Interleaved(shards, 3, 4000000000u), 0) == AllRecords(shards));
}

TEST_CASE("hundreds of slots that die one by one are still found", "[plan][interleave]") {
  std::mt19937_64 draw(4);
  std::vector<std::uint64_t> shards(300);
  for (auto& n : shards) n = draw() % 500;
  const Plan plan = Interleaved(shards, 300, 1);
  const auto want = Play(shards, 300, 1);
  CHECK(Epoch(plan, 0) == want);
  for (std::uint64_t row = 0; row < want.size(); row += 37) {
    RowId id = 0;
    plan->Rows(0, row, {&id, 1});
    REQUIRE(id == want[row]);
  }
}

TEST_CASE("tables grow with the shards and not with the cycle times the shards",
          "[plan][interleave]") {
  std::vector<std::uint64_t> shards(5000);
  for (std::size_t s = 0; s < shards.size(); ++s) shards[s] = s;
  const Plan plan = Interleaved(shards, 5000, 1);
  CHECK(plan->memory_bytes() < 5000 * 250);
}

TEST_CASE("shards of 2^39 records are interleaved without walking them", "[plan][interleave]") {
  const std::uint64_t half = std::uint64_t{1} << 39;
  const Plan plan = Interleaved({half, half}, 2, 3);
  std::vector<RowId> ids(6);
  plan->Rows(0, std::uint64_t{6} << 36, ids);
  const std::uint64_t r = std::uint64_t{3} << 36;
  CHECK(ids == std::vector<RowId>{MakeRowId(0, r), MakeRowId(0, r + 1), MakeRowId(0, r + 2),
                                  MakeRowId(1, r), MakeRowId(1, r + 1), MakeRowId(1, r + 2)});
}

TEST_CASE("the r-th living slot and a slot's rank agree with counting", "[plan][interleave]") {
  std::mt19937 draw(9);
  for (const std::uint32_t n : {1u, 2u, 3u, 16u, 37u}) {
    std::vector<std::uint32_t> order(n);
    for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), draw);
    const SlotIndex index(order);
    for (std::uint32_t prefix = 1; prefix <= n; ++prefix) {
      std::vector<std::uint32_t> living(order.begin(), order.begin() + prefix);
      std::sort(living.begin(), living.end());
      for (std::uint32_t r = 0; r < prefix; ++r) {
        REQUIRE(index.Select(prefix, r) == living[r]);
        REQUIRE(index.Rank(prefix, living[r]) == r);
      }
    }
  }
}

}  // namespace
}  // namespace stoker::plan
