#include "daemon/plan/grid.h"

#include <algorithm>
#include <string>

namespace stoker::plan {
namespace {

std::uint64_t GlobalBatch(const Grid& g) { return std::uint64_t{g.batch} * g.world; }

std::uint64_t RowsLeft(const Grid& g) {
  return g.rows_per_epoch - std::min(g.rows_per_epoch, g.origin);
}

std::uint64_t DivideUp(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

// rank * rows / world, rounded down, without the overflow of rank * rows.
std::uint64_t Share(std::uint64_t rows, std::uint64_t world, std::uint64_t rank) {
  return rows / world * rank + rows % world * rank / world;
}

}  // namespace

std::uint64_t StepsLeft(const Grid& grid) {
  const std::uint64_t g = GlobalBatch(grid);
  return grid.remainder == Remainder::kDrop ? RowsLeft(grid) / g : DivideUp(RowsLeft(grid), g);
}

Step StepAt(const Grid& grid, std::uint64_t k) {
  const std::uint64_t g = GlobalBatch(grid);
  const std::uint64_t first = grid.origin + k * g;
  return {DivideUp(first, g), first, std::min(g, grid.rows_per_epoch - first)};
}

RankRows RowsOf(const Grid& grid, const Step& step, std::uint32_t rank) {
  const std::uint64_t begin = Share(step.rows, grid.world, rank);
  const std::uint64_t end = Share(step.rows, grid.world, std::uint64_t{rank} + 1);
  const auto count = static_cast<std::uint32_t>(end - begin);
  const std::uint32_t filler = grid.remainder == Remainder::kPad ? grid.batch - count : 0;
  return {step.first_row + begin, count, filler};
}

std::uint64_t DroppedRows(const Grid& grid) {
  return grid.remainder == Remainder::kDrop ? RowsLeft(grid) % GlobalBatch(grid) : 0;
}

Status CheckNotEmpty(const Grid& grid) {
  const std::string numbers = std::to_string(grid.rows_per_epoch) + " records, " +
                              std::to_string(grid.world) + (grid.world == 1 ? " rank" : " ranks") +
                              ", batch size " + std::to_string(grid.batch);
  if (grid.batch == 0 || grid.world == 0) {
    return Status(Code::kInvalidArgument, numbers + ": batch size and ranks must be 1 or more");
  }
  if (grid.origin > grid.rows_per_epoch) {
    return Status(Code::kInvalidArgument,
                  numbers + ": row " + std::to_string(grid.origin) + " is past the epoch's end");
  }
  Grid whole = grid;
  whole.origin = 0;
  if (StepsLeft(whole) == 0) {
    return Status(Code::kInvalidArgument,
                  numbers + " give 0 batches an epoch" +
                      (grid.remainder == Remainder::kDrop && grid.rows_per_epoch > 0
                           ? ": remainder DROP leaves out a step of fewer than " +
                                 std::to_string(GlobalBatch(grid)) + " rows"
                           : ""));
  }
  return Status();
}

}  // namespace stoker::plan
