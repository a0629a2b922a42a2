// Resampler: the one loop over pixels. It resizes or copies a view, mirrors it if its taps do,
// brings each value through factor and offset, and writes it once, in the sink's type and layout.
//
// Rows are summed first and then columns, two rows of output at a time, so that what lies between
// stays in the first cache. Sums run in the taps' order and without fused multiply-add, each in a
// register lane of its own: the same bits on every CPU and every SIMD target.
//
// Thread-safety: a Resampler belongs to one thread and keeps its buffers. Errors: std::bad_alloc.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/image/pixels.h"
#include "daemon/image/taps.h"

namespace stoker::image {

enum class OutType : std::uint8_t { kUint8, kUint16, kFloat32, kFloat16, kBfloat16 };
enum class Layout : std::uint8_t { kNhwc, kNchw };

// value * factor + offset, by channel.
struct Affine {
  float factor[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  float offset[4] = {0.0f, 0.0f, 0.0f, 0.0f};
};

// Where values go. Whole numbers are rounded half to even and clamped to what the type holds.
struct Sink {
  void* out = nullptr;
  OutType type = OutType::kFloat32;
  Layout layout = Layout::kNhwc;
  std::uint32_t channels = 3;  // 1, 3, or 4: whole pixels, NHWC
  // kFloat32: rounded and clamped to 0 … round_to, as an integer image would hold them. 0: not.
  float round_to = 0.0f;
};

class Resampler {
 public:
  // Writes rows.size() x columns.size() pixels.
  void Run(const View& in, const Taps& rows, const Taps& columns, const Affine& affine,
           const Sink& sink);

 private:
  std::vector<float> weights_;  // of the columns, four lanes a tap, factors within
  std::vector<std::uint32_t> firsts_;
  std::vector<float> pair_;   // two rows of output, not yet resized across
  std::vector<float> stage_;  // finished lines on their way to the sink
};

// For tests: names of the SIMD targets that this CPU runs, and the choice of one of them or of the
// plain loop; "" is the best. Not beside a Run().
inline constexpr const char* kPlainTarget = "plain";
std::vector<const char*> SimdTargets();
void UseSimdTarget(const char* name);

}  // namespace stoker::image
