// Compiled once for each SIMD target by Highway; the best that the CPU runs is chosen at run time.
#include "daemon/image/resample.h"

// What is worth its compile time: AVX-512 gains nothing on eight lanes, SSSE3 nothing over SSE4.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/image/resample_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "daemon/image/resample_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace stoker::image::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

// What Highway falls back to has no registers of whole pixels.
void Resample(const ResampleJob& job) { ResamplePlainly(job); }

#else

namespace hn = hwy::HWY_NAMESPACE;

// Eight lanes are two rows of one pixel. Narrower registers take them in two steps; wider ones
// are not used, so that every target adds in the same lanes.
using Floats = hn::CappedTag<float, 8>;
using Four = hn::CappedTag<float, 4>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Bytes = hn::Rebind<std::uint8_t, Floats>;
using Shorts = hn::Rebind<std::uint16_t, Floats>;
using Vec = hn::Vec<Floats>;
constexpr std::size_t kLanes = HWY_TARGET == HWY_AVX2 ? 8 : 4;
constexpr std::size_t kParts = 8 / kLanes;  // registers that hold one pixel of two rows

HWY_INLINE Vec LoadItems(const std::uint8_t* from) {
  return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(Bytes(), from)));
}
HWY_INLINE Vec LoadItems(const float* from) { return hn::LoadU(Floats(), from); }

// Two output rows, each out of its own source rows, not yet resized across: pair[8 * x] is pixel x
// of the first row, pair[8 * x + 4] of the second. kTaps 0: as many as `most`.
template <int kTaps, typename T>
HWY_INLINE void DownTwo(const ResampleJob& job, const T* first, const float* first_weights,
                        const T* second, const float* second_weights) {
  const Floats d;
  constexpr std::size_t kRegisters = 16 / kLanes;  // of four pixels
  const std::size_t taps = kTaps == 0 ? job.row_most : kTaps;
  const std::size_t stride = job.in.stride;
  for (std::size_t x = 0; x < job.in.width; x += 4) {
    Vec a[kRegisters];
    Vec b[kRegisters];
    for (std::size_t i = 0; i < kRegisters; ++i) a[i] = b[i] = hn::Zero(d);
    for (std::size_t k = 0; k < taps; ++k) {
      const Vec wa = hn::Set(d, first_weights[k]);
      const Vec wb = hn::Set(d, second_weights[k]);
      for (std::size_t i = 0; i < kRegisters; ++i) {
        const std::size_t at = k * stride + 4 * x + i * kLanes;
        a[i] = hn::Add(a[i], hn::Mul(wa, LoadItems(first + at)));
        b[i] = hn::Add(b[i], hn::Mul(wb, LoadItems(second + at)));
      }
    }
    float* to = job.pair + 8 * x;
    for (std::size_t i = 0; i < kRegisters; ++i) {
#if HWY_TARGET == HWY_AVX2
      hn::StoreU(hn::ConcatLowerLower(d, b[i], a[i]), d, to + 16 * i);
      hn::StoreU(hn::ConcatUpperUpper(d, b[i], a[i]), d, to + 16 * i + 8);
#else
      hn::StoreU(a[i], d, to + 8 * i);
      hn::StoreU(b[i], d, to + 8 * i + 4);
#endif
    }
  }
}

template <typename T>
HWY_INLINE void Down(const ResampleJob& job, const T* in, std::size_t y) {
  const std::size_t other = y + 1 < job.height ? y + 1 : y;
  const T* first = in + job.row_first[y] * job.in.stride;
  const T* second = in + job.row_first[other] * job.in.stride;
  const float* first_weights = job.row_weights + y * job.row_most;
  const float* second_weights = job.row_weights + other * job.row_most;
  switch (job.row_most) {
    case 1:
      return DownTwo<1>(job, first, first_weights, second, second_weights);
    case 2:
      return DownTwo<2>(job, first, first_weights, second, second_weights);
    case 3:
      return DownTwo<3>(job, first, first_weights, second, second_weights);
    case 4:
      return DownTwo<4>(job, first, first_weights, second, second_weights);
    default:
      return DownTwo<0>(job, first, first_weights, second, second_weights);
  }
}

// One output pixel of both rows. kTaps 0: as many as `most`.
template <int kTaps>
HWY_INLINE void AcrossOne(const float* from, const float* weights, std::size_t most, Vec offset,
                          Vec* sum) {
  const Floats d;
  const std::size_t taps = kTaps == 0 ? most : kTaps;
  for (std::size_t i = 0; i < kParts; ++i) sum[i] = offset;
  for (std::size_t k = 0; k < taps; ++k) {
    const Vec w = hn::LoadDup128(d, weights + 4 * k);
    for (std::size_t i = 0; i < kParts; ++i) {
      sum[i] = hn::Add(sum[i], hn::Mul(w, hn::LoadU(d, from + 8 * k + kLanes * i)));
    }
  }
}

// Stores one pixel of both rows where each row wants it.
HWY_INLINE void StorePixel(const Vec* sum, float* first, float* second) {
#if HWY_TARGET == HWY_AVX2
  hn::StoreU(hn::LowerHalf(Four(), sum[0]), Four(), first);
  hn::StoreU(hn::UpperHalf(Four(), sum[0]), Four(), second);
#else
  hn::StoreU(sum[0], Floats(), first);
  hn::StoreU(sum[1], Floats(), second);
#endif
}

// Four pixels of both rows to lines of one channel each. stage: line c of the first row at
// c * line, of the second behind all of the first's.
HWY_INLINE void StorePlanes(const Vec (&sum)[4][kParts], std::size_t channels, std::size_t line,
                            float* stage) {
  const Floats d;
  for (std::size_t i = 0; i < kParts; ++i) {
    const Vec p = hn::InterleaveLower(d, sum[0][i], sum[2][i]);
    const Vec q = hn::InterleaveLower(d, sum[1][i], sum[3][i]);
    const auto put = [&](Vec v, std::size_t c) {
      float* to = stage + c * line;
#if HWY_TARGET == HWY_AVX2
      hn::StoreU(hn::LowerHalf(Four(), v), Four(), to);
      hn::StoreU(hn::UpperHalf(Four(), v), Four(), to + channels * line);
#else
      hn::StoreU(v, Floats(), to + i * channels * line);
#endif
    };
    put(hn::InterleaveLower(d, p, q), 0);
    if (channels == 1) continue;
    put(hn::InterleaveUpper(d, p, q), 1);
    const Vec r = hn::InterleaveUpper(d, sum[0][i], sum[2][i]);
    const Vec s = hn::InterleaveUpper(d, sum[1][i], sum[3][i]);
    put(hn::InterleaveLower(d, r, s), 2);
  }
}

template <int kTaps>
HWY_INLINE void Across(const ResampleJob& job) {
  const Floats d;
  const Vec offset = hn::LoadDup128(d, job.offset);
  const std::size_t channels = job.sink.channels;
  const bool planes = channels == 1 || job.sink.layout == Layout::kNchw;
  const std::size_t most = job.column_most;
  for (std::size_t x = 0; x < job.width; x += 4) {
    Vec sum[4][kParts];
    for (std::size_t i = 0; i < 4; ++i) {
      AcrossOne<kTaps>(job.pair + std::size_t{job.column_first[x + i]} * 8,
                       job.column_weights + (x + i) * most * 4, most, offset, sum[i]);
    }
    if (planes) {
      StorePlanes(sum, channels, job.line, job.stage + x);
      continue;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      float* to = job.stage + channels * (x + i);
      StorePixel(sum[i], to, to + job.line);
    }
  }
}

// A line to its place, past the caches: nobody here reads it again. Its ends, which share a
// register's width with the neighbouring lines, go the plain way.
template <typename T>
HWY_INLINE void Stream(const T* from, std::size_t n, T* to) {
  const hn::Repartition<T, Floats> d;
  constexpr std::size_t kItems = kLanes * sizeof(float) / sizeof(T);
  std::size_t i = 0;
  while (i < n && reinterpret_cast<std::uintptr_t>(to + i) % (kItems * sizeof(T)) != 0) {
    to[i] = from[i];
    ++i;
  }
  for (; i + kItems <= n; i += kItems) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  for (; i < n; ++i) to[i] = from[i];
}

HWY_INLINE hn::Vec<Ints> Whole(Vec v, float most) {
  const Floats d;
  return hn::NearestInt(hn::Min(hn::Max(v, hn::Zero(d)), hn::Set(d, most)));
}

HWY_INLINE void Store16(hn::Vec<Words> v, std::uint16_t* to) {
  const auto low = hn::DemoteTo(Shorts(), hn::BitCast(Ints(), v));
  hn::StoreU(low, Shorts(), to);
}

HWY_INLINE void StoreHalf(Vec v, std::uint16_t* to) {
#if HWY_TARGET == HWY_AVX2
  const hn::Rebind<hwy::float16_t, Floats> halves;
  hn::StoreU(hn::DemoteTo(halves, v), halves, reinterpret_cast<hwy::float16_t*>(to));
#else
  const Words w;
  const auto bits = hn::BitCast(w, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(w, 0x8000u));
  const auto size = hn::And(bits, hn::Set(w, 0x7fffffffu));
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(w, 1u));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(size, hn::Set(w, 0x38000000u - 0xfffu)), odd));
  const Vec scaled = hn::Mul(hn::BitCast(Floats(), hn::Min(size, hn::Set(w, 0x38800000u))),
                             hn::Set(Floats(), 16777216.0f));
  const auto small = hn::BitCast(w, hn::NearestInt(scaled));
  const auto nan =
      hn::Or(hn::Set(w, 0x7e00u), hn::And(hn::ShiftRight<13>(size), hn::Set(w, 0x3ffu)));
  auto half = hn::IfThenElse(hn::Lt(size, hn::Set(w, 0x38800000u)), small, normal);
  half = hn::IfThenElse(hn::Lt(size, hn::Set(w, 0x477ff000u)), half, hn::Set(w, 0x7c00u));
  half = hn::IfThenElse(hn::Gt(size, hn::Set(w, 0x7f800000u)), nan, half);
  Store16(hn::Or(half, sign), to);
#endif
}

HWY_INLINE hn::Vec<Words> BrainFloat(Vec v) {
  const Words w;
  const auto bits = hn::BitCast(w, v);
  const auto size = hn::And(bits, hn::Set(w, 0x7fffffffu));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(w, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(w, 0x7fffu)), odd));
  return hn::IfThenElse(hn::Gt(size, hn::Set(w, 0x7f800000u)), hn::Set(w, 0x7fc0u), rounded);
}

// Each value of a line through `put`, in place: no type is wider than the floats it replaces, and
// lines are padded.
template <typename T, typename Put>
HWY_INLINE T* Convert(float* line, std::size_t n, Put put) {
  T* to = reinterpret_cast<T*>(line);
  for (std::size_t i = 0; i < n; i += kLanes) put(hn::LoadU(Floats(), line + i), to + i);
  return to;
}

// One finished line to its place, in the sink's type.
HWY_INLINE void Finish(const Sink& sink, float* line, std::size_t n, std::uint8_t* to) {
  auto* shorts = reinterpret_cast<std::uint16_t*>(to);
  switch (sink.type) {
    case OutType::kUint8:
      return Stream(Convert<std::uint8_t>(line, n,
                                          [](Vec v, std::uint8_t* place) {
                                            const auto whole = Whole(v, 255.0f);
                                            hn::StoreU(hn::DemoteTo(Bytes(), whole), Bytes(),
                                                       place);
                                          }),
                    n, to);
    case OutType::kUint16:
      return Stream(Convert<std::uint16_t>(line, n,
                                           [](Vec v, std::uint16_t* place) {
                                             Store16(hn::BitCast(Words(), Whole(v, 65535.0f)),
                                                     place);
                                           }),
                    n, shorts);
    case OutType::kFloat16:
      return Stream(Convert<std::uint16_t>(line, n, StoreHalf), n, shorts);
    case OutType::kBfloat16:
      return Stream(
          Convert<std::uint16_t>(
              line, n, [](Vec v, std::uint16_t* place) { Store16(BrainFloat(v), place); }),
          n, shorts);
    case OutType::kFloat32:
      break;
  }
  auto* floats = reinterpret_cast<float*>(to);
  if (sink.round_to > 0.0f) {
    Convert<float>(line, n, [&sink](Vec v, float* place) {
      hn::StoreU(hn::ConvertTo(Floats(), Whole(v, sink.round_to)), Floats(), place);
    });
  }
  // Whole pixels are an image between two operations, which the next one reads.
  if (sink.channels == kStep) {
    std::copy_n(line, n, floats);
  } else {
    Stream(line, n, floats);
  }
}

HWY_INLINE void FinishRow(const ResampleJob& job, std::size_t y, float* stage) {
  const Sink& sink = job.sink;
  const std::size_t item = sink.type == OutType::kUint8     ? 1
                           : sink.type == OutType::kFloat32 ? 4
                                                            : 2;
  auto* out = static_cast<std::uint8_t*>(sink.out);
  if (sink.layout == Layout::kNhwc || sink.channels == 1) {
    const std::size_t n = std::size_t{job.width} * sink.channels;
    return Finish(sink, stage, n, out + y * n * item);
  }
  const std::size_t plane = std::size_t{job.height} * job.width;
  for (std::size_t c = 0; c < sink.channels; ++c) {
    Finish(sink, stage + c * job.line, job.width, out + (c * plane + y * job.width) * item);
  }
}

void Resample(const ResampleJob& job) {
  const std::size_t lines =
      job.sink.layout == Layout::kNhwc || job.sink.channels == 1 ? 1 : job.sink.channels;
  for (std::size_t y = 0; y < job.height; y += 2) {
    if (job.in.bytes != nullptr) {
      Down(job, job.in.bytes, y);
    } else {
      Down(job, job.in.floats, y);
    }
    switch (job.column_most) {
      case 1:
        Across<1>(job);
        break;
      case 2:
        Across<2>(job);
        break;
      case 3:
        Across<3>(job);
        break;
      case 4:
        Across<4>(job);
        break;
      case 5:
        Across<5>(job);
        break;
      default:
        Across<0>(job);
    }
    FinishRow(job, y, job.stage);
    if (y + 1 < job.height) FinishRow(job, y + 1, job.stage + lines * job.line);
  }
  // The streamed lines are seen by whoever sees that the row is done.
  hwy::FlushStream();
}

#endif  // HWY_SCALAR

}  // namespace stoker::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stoker::image {

namespace {

bool plain_only = false;  // for tests

HWY_EXPORT(Resample);

}  // namespace

void Resampler::Run(const View& in, const Taps& rows, const Taps& columns, const Affine& affine,
                    const Sink& sink) {
  constexpr std::size_t kTile = 4;  // pixels that are stored together
  const std::size_t width = columns.size();
  const std::size_t padded = (width + kTile - 1) / kTile * kTile;
  // Eight more: stores of whole registers end behind the last value.
  const std::size_t line = padded * kStep + 8;
  const auto grow = [](std::vector<float>* buffer, std::size_t n) {
    if (buffer->size() < n) buffer->resize(n);
  };
  grow(&weights_, padded * columns.most * kStep);
  grow(&pair_, (std::size_t{in.width} + kTile) * 2 * kStep);
  grow(&stage_, 2 * kStep * line);
  firsts_.assign(columns.first.begin(), columns.first.end());
  firsts_.resize(padded, 0);
  std::size_t at = 0;
  for (const float weight : columns.weights) {
    for (std::size_t c = 0; c < kStep; ++c) weights_[at++] = weight * affine.factor[c];
  }
  std::fill(weights_.begin() + static_cast<std::ptrdiff_t>(at),
            weights_.begin() + static_cast<std::ptrdiff_t>(padded * columns.most * kStep), 0.0f);
  ResampleJob job = {};
  job.in = in;
  job.row_first = rows.first.data();
  job.row_weights = rows.weights.data();
  job.row_most = rows.most;
  job.height = rows.size();
  job.column_first = firsts_.data();
  job.column_weights = weights_.data();
  job.column_most = columns.most;
  job.width = static_cast<std::uint32_t>(width);
  std::copy_n(affine.offset, kStep, job.offset);
  job.sink = sink;
  job.pair = pair_.data();
  job.stage = stage_.data();
  job.line = static_cast<std::uint32_t>(line);
  if (plain_only) return ResamplePlainly(job);
  HWY_DYNAMIC_DISPATCH(Resample)(job);
}

std::vector<const char*> SimdTargets() {
  std::vector<const char*> names;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    names.push_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

void UseSimdTarget(const char* name) {
  plain_only = std::string_view(name) == kPlainTarget;
  hwy::SetSupportedTargetsForTest(0);
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    if (std::string_view(hwy::TargetName(rest & -rest)) == name) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
    }
  }
  hwy::GetChosenTarget().DeInit();
}

}  // namespace stoker::image
#endif
