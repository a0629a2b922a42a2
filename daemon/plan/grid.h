// Grid: who gets which rows (docs/design/delivery.md). The k-th step after the origin o covers
// global rows from o + kG, G = batch * world size; of its m rows, rank r of W gets
// floor(r m / W) up to floor((r + 1) m / W). A formula: ranks and hosts need no conversation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/base/status.h"

namespace stoker::plan {

enum class Remainder : std::uint8_t { kPartial, kDrop, kPad };

struct Grid {
  std::uint64_t rows_per_epoch = 0;
  std::uint32_t batch = 1;
  std::uint32_t world = 1;
  Remainder remainder = Remainder::kPartial;
  std::uint64_t origin = 0;  // the first row: a token's in its own epoch, else 0

  std::uint64_t step_rows() const { return std::uint64_t{batch} * world; }
};

struct Step {
  std::uint64_t number = 0;     // in its epoch
  std::uint64_t first_row = 0;  // global
  std::uint64_t rows = 0;       // of all ranks
};

struct RankRows {
  std::uint64_t first = 0;   // global
  std::uint32_t count = 0;
  std::uint32_t filler = 0;  // rows of zeros behind them (PAD)
};

inline std::uint64_t StepsLeft(const Grid& grid) {
  const std::uint64_t left = grid.rows_per_epoch - std::min(grid.origin, grid.rows_per_epoch);
  const std::uint64_t whole = left / grid.step_rows();
  return whole + (grid.remainder != Remainder::kDrop && left % grid.step_rows() > 0 ? 1 : 0);
}

// REQUIRES: k < StepsLeft(grid).
inline Step StepAt(const Grid& grid, std::uint64_t k) {
  const std::uint64_t first = grid.origin + k * grid.step_rows();
  return {(first + grid.step_rows() - 1) / grid.step_rows(), first,
          std::min(grid.step_rows(), grid.rows_per_epoch - first)};
}

inline RankRows RowsOf(const Grid& grid, const Step& step, std::uint32_t rank) {
  const std::uint64_t begin = rank * step.rows / grid.world;
  const std::uint64_t end = (rank + std::uint64_t{1}) * step.rows / grid.world;
  const auto count = static_cast<std::uint32_t>(end - begin);
  return {step.first_row + begin, count,
          grid.remainder == Remainder::kPad ? grid.batch - count : 0};
}

// Rows of an epoch that no rank gets.
inline std::uint64_t DroppedRows(const Grid& grid) {
  const std::uint64_t left = grid.rows_per_epoch - std::min(grid.origin, grid.rows_per_epoch);
  return grid.remainder == Remainder::kDrop ? left % grid.step_rows() : 0;
}

// kInvalidArgument, with the numbers, where an epoch would have no batch.
inline Status CheckNotEmpty(const Grid& grid) {
  if (StepsLeft(grid) > 0) return Status();
  return Status(Code::kInvalidArgument,
                "an epoch would have 0 batches: " + std::to_string(grid.rows_per_epoch) +
                    " records, " + std::to_string(grid.world) + " ranks, batch size " +
                    std::to_string(grid.batch) +
                    ", remainder DROP; make the batch smaller, or set remainder: PARTIAL or PAD");
}

}  // namespace stoker::plan
