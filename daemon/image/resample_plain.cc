#include <algorithm>
#include <cmath>

#include "daemon/base/half.h"
#include "daemon/image/resample_kernel.h"

namespace stoker::image {
namespace {

float Rounded(float value, float most) {
  return std::nearbyint(std::min(std::max(value, 0.0f), most));
}

void Put(const Sink& sink, float value, std::size_t at) {
  switch (sink.type) {
    case OutType::kUint8:
      static_cast<std::uint8_t*>(sink.out)[at] = static_cast<std::uint8_t>(Rounded(value, 255.0f));
      break;
    case OutType::kUint16:
      static_cast<std::uint16_t*>(sink.out)[at] =
          static_cast<std::uint16_t>(Rounded(value, 65535.0f));
      break;
    case OutType::kFloat32:
      static_cast<float*>(sink.out)[at] =
          sink.round_to > 0.0f ? Rounded(value, sink.round_to) : value;
      break;
    case OutType::kFloat16:
      static_cast<std::uint16_t*>(sink.out)[at] = ToFloat16(value);
      break;
    case OutType::kBfloat16:
      static_cast<std::uint16_t*>(sink.out)[at] = ToBfloat16(value);
      break;
  }
}

}  // namespace

void DownPlainly(const ResampleJob& job, std::size_t y, float* to, std::size_t step) {
  const std::size_t most = job.row_most;
  const float* weights = job.row_weights + y * most;
  const std::size_t first = job.row_first[y] * job.in.stride;
  for (std::size_t i = 0; i < job.in.width * kStep; ++i) {
    float sum = 0.0f;
    for (std::size_t k = 0; k < most; ++k) {
      const std::size_t at = first + k * job.in.stride + i;
      sum += weights[k] *
             (job.in.bytes != nullptr ? static_cast<float>(job.in.bytes[at]) : job.in.floats[at]);
    }
    to[i / kStep * step + i % kStep] = sum;
  }
}

void ResamplePlainly(const ResampleJob& job) {
  const Sink& sink = job.sink;
  const std::size_t plane = std::size_t{job.height} * job.width;
  for (std::size_t y = 0; y < job.height; ++y) {
    DownPlainly(job, y, job.pair, kStep);
    for (std::size_t x = 0; x < job.width; ++x) {
      const float* from = job.pair + job.column_first[x] * kStep;
      const float* weights = job.column_weights + x * job.column_most * kStep;
      for (std::size_t c = 0; c < sink.channels; ++c) {
        float sum = job.offset[c];
        for (std::size_t k = 0; k < job.column_most; ++k) {
          sum += weights[k * kStep + c] * from[k * kStep + c];
        }
        const std::size_t place = y * job.width + x;
        Put(sink, sum,
            sink.layout == Layout::kNchw ? c * plane + place : place * sink.channels + c);
      }
    }
  }
}

}  // namespace stoker::image
