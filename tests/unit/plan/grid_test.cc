// Ranks get every row once, in the same number of steps, and a resume at another size of the grid
// deals what is left.
#include "daemon/plan/grid.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/plan/plans.h"

namespace stoker::plan {
namespace {

// The global rows that a rank gets from the origin on, step by step.
std::vector<std::uint64_t> RowsOfRank(const Grid& grid, std::uint32_t rank) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t k = 0; k < StepsLeft(grid); ++k) {
    const RankRows part = RowsOf(grid, StepAt(grid, k), rank);
    for (std::uint32_t i = 0; i < part.count; ++i) rows.push_back(part.first + i);
  }
  return rows;
}

std::vector<std::uint64_t> RowsOfAll(const Grid& grid) {
  std::vector<std::uint64_t> rows;
  for (std::uint32_t rank = 0; rank < grid.world; ++rank) {
    const auto part = RowsOfRank(grid, rank);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<std::uint64_t> Range(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> rows;
  for (; begin < end; ++begin) rows.push_back(begin);
  return rows;
}

TEST_CASE("103 rows for 4 ranks in batches of 8 end on all ranks together", "[plan][grid]") {
  Grid grid{103, 8, 4, Remainder::kDrop};
  CHECK(StepsLeft(grid) == 3);
  CHECK(DroppedRows(grid) == 7);
  CHECK(RowsOfAll(grid) == Range(0, 96));
  for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(RowsOfRank(grid, rank).size() == 24);

  grid.remainder = Remainder::kPad;
  CHECK(StepsLeft(grid) == 4);
  CHECK(DroppedRows(grid) == 0);
  CHECK(RowsOfAll(grid) == Range(0, 103));
  std::uint32_t filler = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    for (std::uint64_t k = 0; k < 4; ++k) {
      const RankRows part = RowsOf(grid, StepAt(grid, k), rank);
      CHECK(part.count + part.filler == 8);
      filler += part.filler;
    }
  }
  CHECK(filler == 25);

  grid.remainder = Remainder::kPartial;
  CHECK(StepsLeft(grid) == 4);
  CHECK(RowsOfAll(grid) == Range(0, 103));
  // 7 rows left for 4 ranks: 1, 2, 2, 2.
  const Step last = StepAt(grid, 3);
  CHECK(last.rows == 7);
  CHECK(RowsOf(grid, last, 0).count == 1);
  CHECK(RowsOf(grid, last, 1).first == 97);
  CHECK(RowsOf(grid, last, 1).count == 2);
  CHECK(RowsOf(grid, last, 3).first == 101);
  CHECK(RowsOf(grid, last, 3).filler == 0);
}

TEST_CASE("100 rows in batches of 32 are 32, 32, 32 and 4, or 3 batches and 4 dropped",
          "[plan][grid]") {
  Grid grid{100, 32, 1, Remainder::kPartial};
  REQUIRE(StepsLeft(grid) == 4);
  std::vector<std::uint32_t> sizes;
  for (std::uint64_t k = 0; k < 4; ++k) sizes.push_back(RowsOf(grid, StepAt(grid, k), 0).count);
  CHECK(sizes == std::vector<std::uint32_t>{32, 32, 32, 4});
  grid.remainder = Remainder::kDrop;
  CHECK(StepsLeft(grid) == 3);
  CHECK(DroppedRows(grid) == 4);
}

TEST_CASE("fewer rows than ranks leave some ranks a batch of no rows", "[plan][grid]") {
  const Grid grid{3, 2, 4, Remainder::kPartial};
  REQUIRE(StepsLeft(grid) == 1);
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t r = 0; r < 4; ++r) sizes.push_back(RowsOf(grid, StepAt(grid, 0), r).count);
  CHECK(sizes == std::vector<std::uint32_t>{0, 1, 1, 1});
}

TEST_CASE("DROP with less than one global batch is refused with the numbers", "[plan][grid]") {
  const auto message = [](const Grid& grid) {
    const Status status = CheckNotEmpty(grid);
    CHECK(status.code() == Code::kInvalidArgument);
    return status.message();
  };
  CHECK(message({5, 8, 1, Remainder::kDrop}) ==
        "5 records, 1 rank, batch size 8 give 0 batches an epoch: remainder DROP leaves out a "
        "step of fewer than 8 rows");
  CHECK(message({6, 2, 4, Remainder::kDrop}) ==
        "6 records, 4 ranks, batch size 2 give 0 batches an epoch: remainder DROP leaves out a "
        "step of fewer than 8 rows");
  CHECK(message({0, 2, 4, Remainder::kPad}) ==
        "0 records, 4 ranks, batch size 2 give 0 batches an epoch");
  CHECK(message({6, 0, 4, Remainder::kPad}) ==
        "6 records, 4 ranks, batch size 0: batch size and ranks must be 1 or more");
  CHECK(message({6, 1, 4, Remainder::kPad, 7}) ==
        "6 records, 4 ranks, batch size 1: row 7 is past the epoch's end");
  CHECK(CheckNotEmpty({8, 2, 4, Remainder::kDrop}).ok());
  CHECK(CheckNotEmpty({8, 2, 4, Remainder::kDrop, 8}).ok());  // nothing left of this epoch alone
  CHECK(CheckNotEmpty({1, 2, 4, Remainder::kPartial}).ok());
}

TEST_CASE("a resumed step's number is the global row over the global batch, rounded up",
          "[plan][grid]") {
  const Grid grid{1000, 8, 4, Remainder::kPartial, 40};
  CHECK(StepAt(grid, 0).number == 2);
  CHECK(StepAt(grid, 0).first_row == 40);
  CHECK(StepAt(grid, 1).number == 3);
  CHECK(StepAt(grid, 1).first_row == 72);
  CHECK(StepsLeft(grid) == 30);
  CHECK(StepAt({1000, 8, 4, Remainder::kPartial, 64}, 0).number == 2);
  CHECK(StepsLeft({1000, 8, 4, Remainder::kPartial, 1000}) == 0);
}

TEST_CASE("the union over ranks is every row once, for any grid", "[plan][grid][property]") {
  std::mt19937_64 draw(2);
  for (int round = 0; round < 3000; ++round) {
    Grid grid{1 + draw() % 400, static_cast<std::uint32_t>(1 + draw() % 20),
              static_cast<std::uint32_t>(1 + draw() % 9), static_cast<Remainder>(draw() % 3)};
    grid.origin = draw() % 2 == 0 ? 0 : draw() % (grid.rows_per_epoch + 1);
    CAPTURE(grid.rows_per_epoch, grid.batch, grid.world, int(grid.remainder), grid.origin);
    REQUIRE(RowsOfAll(grid) == Range(grid.origin, grid.rows_per_epoch - DroppedRows(grid)));
    for (std::uint64_t k = 0; k < StepsLeft(grid); ++k) {
      const Step step = StepAt(grid, k);
      std::uint64_t next = step.first_row;
      for (std::uint32_t rank = 0; rank < grid.world; ++rank) {
        const RankRows part = RowsOf(grid, step, rank);
        REQUIRE(part.first == next);
        REQUIRE(part.count <= grid.batch);
        REQUIRE(part.filler == (grid.remainder == Remainder::kPad ? grid.batch - part.count : 0));
        next += part.count;
      }
      REQUIRE(next == step.first_row + step.rows);
    }
  }
}

TEST_CASE("a resume with another number of ranks deals the rest of the epoch once",
          "[plan][grid]") {
  const Grid before{1000, 8, 4, Remainder::kPartial};
  const std::uint64_t position = StepAt(before, 10).first_row;
  CHECK(position == 320);
  for (const std::uint32_t world : {1u, 2u, 3u, 7u}) {
    for (const std::uint32_t batch : {1u, 8u, 33u}) {
      CAPTURE(world, batch);
      const Grid after{1000, batch, world, Remainder::kPartial, position};
      CHECK(RowsOfAll(after) == Range(320, 1000));
    }
  }
}

TEST_CASE("1237 ids over 7 shards reach 3 ranks once in each of 5 epochs", "[plan][grid]") {
  const std::vector<std::uint64_t> shards = {1, 400, 36, 250, 300, 50, 200};
  const Plan plan = MakePlan(Options(Shuffle::kGlobal), shards);
  const Grid grid{1237, 32, 3, Remainder::kPartial};
  REQUIRE(plan->rows() == 1237);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<RowId> seen;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      for (std::uint64_t k = 0; k < StepsLeft(grid); ++k) {
        const RankRows part = RowsOf(grid, StepAt(grid, k), rank);
        std::vector<RowId> ids(part.count);
        plan->Rows(epoch, part.first, ids);
        seen.insert(seen.end(), ids.begin(), ids.end());
      }
    }
    CHECK(Sorted(seen) == AllRecords(shards));
  }
}

TEST_CASE("shares are exact where rank times rows would overflow", "[plan][grid]") {
  const Grid grid{std::uint64_t{1} << 40, 1u << 20, 1u << 20, Remainder::kDrop};
  REQUIRE(StepsLeft(grid) == 1);
  const RankRows last = RowsOf(grid, StepAt(grid, 0), (1u << 20) - 1);
  CHECK(last.first == (std::uint64_t{1} << 40) - (1u << 20));
  CHECK(last.count == 1u << 20);
}

}  // namespace
}  // namespace stoker::plan
