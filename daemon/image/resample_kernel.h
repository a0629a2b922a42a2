// The resampler's inner job, as its SIMD translation unit sees it: plain pointers and sizes.
#pragma once

#include <cstdint>

#include "daemon/image/resample.h"

namespace stoker::image {

struct ResampleJob {
  View in;
  const std::uint32_t* row_first;
  const float* row_weights;
  std::uint32_t row_most;
  std::uint32_t height;  // of the output
  const std::uint32_t* column_first;
  const float* column_weights;  // four lanes a tap
  std::uint32_t column_most;
  std::uint32_t width;  // of the output
  float offset[4];
  Sink sink;
  float* pair;
  float* stage;
  std::uint32_t line;  // items from one staged line to the next
};

// The same in plain C++, value by value: for CPUs without SSE4, and what the tests hold every SIMD
// target against.
void ResamplePlainly(const ResampleJob& job);

// One output row, not yet resized across: pixel x at to[x * step].
void DownPlainly(const ResampleJob& job, std::size_t y, float* to, std::size_t step);

}  // namespace stoker::image
