#include "daemon/image/taps.h"

#include <algorithm>
#include <cmath>

#include "daemon/image/draws.h"

namespace stoker::image {
namespace {

constexpr float kPi = 3.14159265358979323846f;
constexpr int kCubicSteps = 1024;  // of TensorFlow's table between two source places

// The kernels, by distance in source places.
float Triangle(float x) { return std::max(0.0f, 1.0f - std::fabs(x)); }

float Cubic(float x, float a) {
  x = std::fabs(x);
  if (x < 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
  if (x < 2.0f) return ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a;
  return 0.0f;
}

float Lanczos3(float x) {
  x = std::fabs(x);
  if (x > 3.0f) return 0.0f;
  if (x <= 1e-3f) return 1.0f;
  const double angle = static_cast<double>(kPi * x);
  const double product = DrawSin(angle) * DrawSin(angle / 3.0) * 3.0;
  return static_cast<float>(product / (angle * angle));
}

float Weigh(Method method, float distance) {
  switch (method) {
    case Method::kBicubic:
      return Cubic(distance, -0.5f);
    case Method::kLanczos3:
      return Lanczos3(distance);
    default:
      return Triangle(distance);
  }
}

// The source places of one kernel, before those outside are folded or dropped.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Maker {
 public:
  Maker(const Kernel& kernel, std::uint32_t in, std::uint32_t out)
      : kernel_(kernel), in_(in), scale_(static_cast<float>(in) / static_cast<float>(out)) {
    const Method method = kernel.method;
    const bool smooth =
        method == Method::kBilinear || method == Method::kBicubic || method == Method::kLanczos3;
    // TensorFlow's Lanczos goes through its antialiasing code even without antialias.
    spread_ = smooth && (kernel.antialias || method == Method::kLanczos3);
    stretch_ = kernel.antialias ? std::max(scale_, 1.0f) : 1.0f;
    radius_ = stretch_ * (method == Method::kBicubic    ? 2.0f
                          : method == Method::kLanczos3 ? 3.0f
                                                        : 1.0f);
  }

  // Clipped to the source.
  Span SpanOf(std::uint32_t place) const {
    const float x = static_cast<float>(place);
    const float centre = (x + 0.5f) * scale_;
    Span span;
    if (spread_) {
      span = {Floor(centre - radius_ + 0.5f), Floor(centre + radius_ + 0.5f)};
    } else if (kernel_.method == Method::kArea) {
      span = {Floor(x * scale_), static_cast<std::int64_t>(std::ceil((x + 1.0f) * scale_))};
    } else if (kernel_.method == Method::kBilinear || kernel_.method == Method::kBicubic) {
      const std::int64_t reach = kernel_.method == Method::kBilinear ? 1 : 2;
      const std::int64_t at = Floor(centre - 0.5f);
      span = {at - reach + 1, at + reach + 1};
    } else {
      const auto at = Floor(kernel_.method == Method::kNearest ? centre : x * scale_);
      span = {at, at + 1};
    }
    const auto last = static_cast<std::int64_t>(in_) - 1;
    span.begin = std::clamp<std::int64_t>(span.begin, 0, last);
    span.end = std::clamp<std::int64_t>(span.end, span.begin + 1, last + 1);
    return span;
  }

  // Weights of span's places, into weights[0 …].
  void WeightsOf(std::uint32_t place, const Span& span, float* weights) const {
    const float x = static_cast<float>(place);
    const float centre = (x + 0.5f) * scale_;
    const auto n = static_cast<std::size_t>(span.end - span.begin);
    if (spread_) {
      for (std::size_t i = 0; i < n; ++i) {
        const float at = static_cast<float>(span.begin + static_cast<std::int64_t>(i)) + 0.5f;
        weights[i] = Weigh(kernel_.method, (at - centre) / stretch_);
      }
      return Normalise(weights, n);
    }
    switch (kernel_.method) {
      case Method::kArea:
        for (std::size_t i = 0; i < n; ++i) {
          const float at = static_cast<float>(span.begin + static_cast<std::int64_t>(i));
          const float covered = std::min(at + 1.0f, (x + 1.0f) * scale_) - std::max(at, x * scale_);
          weights[i] = covered / scale_;
        }
        return;
      case Method::kBilinear:
      case Method::kBicubic:
        return Neighbours(centre - 0.5f, span, weights);
      default:
        weights[0] = 1.0f;
    }
  }

 private:
  // Without SSE4 std::floor is a call, and there are several for each place.
  static std::int64_t Floor(float x) {
    const auto whole = static_cast<std::int64_t>(x);
    return whole - (static_cast<float>(whole) > x ? 1 : 0);
  }

  static void Normalise(float* weights, std::size_t n) {
    float total = 0.0f;
    for (std::size_t i = 0; i < n; ++i) total += weights[i];
    if (total == 0.0f) {
      weights[0] = total = 1.0f;
    }
    for (std::size_t i = 0; i < n; ++i) weights[i] /= total;
  }

  // Two or four neighbours without antialias. What lies outside is the border's (torchvision, and
  // bilinear) or is dropped and the rest brought back to 1 (TensorFlow's bicubic).
  void Neighbours(float at, const Span& span, float* weights) const {
    const std::int64_t low = Floor(at);
    const float share = at - static_cast<float>(low);
    const auto n = static_cast<std::size_t>(span.end - span.begin);
    std::fill_n(weights, n, 0.0f);
    const bool bilinear = kernel_.method == Method::kBilinear;
    const bool drop = !bilinear && kernel_.profile == Profile::kTf;
    const int reach = bilinear ? 1 : 2;
    for (int k = 1 - reach; k <= reach; ++k) {
      const std::int64_t place = low + k;
      const bool outside = place < 0 || place >= static_cast<std::int64_t>(in_);
      if (drop && outside) continue;
      const auto clamped = std::clamp<std::int64_t>(place, 0, static_cast<std::int64_t>(in_) - 1);
      const float distance = std::fabs(share - static_cast<float>(k));
      weights[clamped - span.begin] += bilinear ? Triangle(distance) : CubicAt(distance);
    }
    if (drop) Normalise(weights, n);
  }

  float CubicAt(float distance) const {
    if (kernel_.profile == Profile::kTorchvision) return Cubic(distance, -0.75f);
    const float step = std::nearbyint(distance * kCubicSteps);
    return Cubic(step / kCubicSteps, -0.5f);
  }

  const Kernel kernel_;
  const std::uint32_t in_;
  const float scale_;
  bool spread_ = false;  // a kernel of some radius, normalised; else neighbours
  float stretch_ = 1.0f;
  float radius_ = 1.0f;
};

}  // namespace

std::uint32_t Taps::begin() const { return *std::min_element(first.begin(), first.end()); }
std::uint32_t Taps::end() const { return *std::max_element(first.begin(), first.end()) + most; }

void Taps::Shift(std::uint32_t begin) {
  for (auto& place : first) place -= begin;
}

void Taps::Reverse() {
  const std::size_t n = first.size();
  std::reverse(first.begin(), first.end());
  for (std::size_t i = 0; i < n / 2; ++i) {
    std::swap_ranges(weights.begin() + static_cast<std::ptrdiff_t>(i * most),
                     weights.begin() + static_cast<std::ptrdiff_t>((i + 1) * most),
                     weights.begin() + static_cast<std::ptrdiff_t>((n - 1 - i) * most));
  }
}

void MakeTaps(const Kernel& kernel, std::uint32_t in, std::uint32_t out, std::uint32_t from,
              std::uint32_t count, Taps* taps) {
  const Maker maker(kernel, in, out);
  std::int64_t most = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Span span = maker.SpanOf(from + i);
    most = std::max(most, span.end - span.begin);
  }
  taps->most = static_cast<std::uint32_t>(most);
  taps->first.resize(count);
  taps->weights.assign(std::size_t{count} * taps->most, 0.0f);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Span span = maker.SpanOf(from + i);
    // At the source's end the taps begin earlier, so that all places have as many.
    const std::int64_t first = std::min(span.begin, static_cast<std::int64_t>(in) - most);
    taps->first[i] = static_cast<std::uint32_t>(first);
    maker.WeightsOf(from + i, span,
                    taps->weights.data() + std::size_t{i} * taps->most + (span.begin - first));
  }
}

void MakeIdentity(std::uint32_t count, Taps* taps) {
  taps->most = 1;
  taps->first.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) taps->first[i] = i;
  taps->weights.assign(count, 1.0f);
}

}  // namespace stoker::image
