// Grid: who gets which rows of an epoch. Arithmetic alone, so that ranks and hosts agree without
// a word between them.
//
// With G = batch * world, the k-th step after the start covers global rows from origin + k * G;
// its number in the epoch is that row / G, rounded up. Of its m rows rank r of W gets those from
// r * m / W up to (r + 1) * m / W, rounded down. Every rank has the same number of steps. A batch
// never spans epochs.
//
// Ownership: values. Thread-safety: pure functions. Blocking: never. Errors: CheckNotEmpty alone;
// the others require a grid that it accepts.
#pragma once

#include <cstdint>

#include "daemon/base/status.h"

namespace stoker::plan {

// What becomes of a step with fewer than G rows, the last of an epoch.
enum class Remainder : std::uint8_t {
  kPartial,  // given as it is; a rank may get no rows
  kDrop,     // left out
  kPad,      // each rank filled up to `batch` rows
};

struct Grid {
  std::uint64_t rows_per_epoch;
  std::uint32_t batch;
  std::uint32_t world;
  Remainder remainder;
  std::uint64_t origin = 0;  // the token's row in the epoch it names; 0 in later ones
};

struct Step {
  std::uint64_t number;     // in its epoch
  std::uint64_t first_row;  // global
  std::uint64_t rows;       // of all ranks together
};

struct RankRows {
  std::uint64_t first;   // global row
  std::uint32_t count;   // rows of the plan
  std::uint32_t filler;  // rows of padding after them
};

// Steps from the origin to the end of the epoch.
std::uint64_t StepsLeft(const Grid& grid);

// REQUIRES: k < StepsLeft(grid).
Step StepAt(const Grid& grid, std::uint64_t k);

// REQUIRES: rank < grid.world.
RankRows RowsOf(const Grid& grid, const Step& step, std::uint32_t rank);

// Rows from the origin on that no step covers; 0 but for kDrop.
std::uint64_t DroppedRows(const Grid& grid);

// Refuses (kInvalidArgument, with the numbers) a grid whose epochs have no steps.
Status CheckNotEmpty(const Grid& grid);

}  // namespace stoker::plan
