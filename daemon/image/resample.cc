#include "daemon/image/resample.h"

#include <algorithm>
#include <cmath>

namespace stoker::image {
namespace {

// One input row across: each output pixel is a weighted sum of its taps.
template <typename T>
void Across(const T* row, std::uint32_t channels, std::uint32_t width,
            const std::vector<std::uint32_t>& first, const std::vector<std::uint32_t>& count,
            const float* weights, std::uint32_t most, float* out) {
  for (std::uint32_t x = 0; x < width; ++x, weights += most) {
    const T* tap = row + std::size_t{first[x]} * channels;
    float sum[4] = {};
    for (std::uint32_t k = 0; k < count[x]; ++k, tap += channels) {
      for (std::uint32_t c = 0; c < channels; ++c)
        sum[c] += weights[k] * static_cast<float>(tap[c]);
    }
    for (std::uint32_t c = 0; c < channels; ++c) *out++ = sum[c];
  }
}

}  // namespace

View View::Crop(std::uint32_t y, std::uint32_t x, std::uint32_t h, std::uint32_t w) const {
  View view = *this;
  const std::size_t skip = y * stride + std::size_t{x} * channels;
  if (bytes != nullptr) view.bytes = bytes + skip;
  if (floats != nullptr) view.floats = floats + skip;
  view.height = h;
  view.width = w;
  return view;
}

void Resampler::MakeTaps(std::uint32_t in, std::uint32_t out, Method method, bool antialias,
                         Taps* taps) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const bool wide = method == Method::kBilinear && antialias && scale > 1.0f;
  taps->most = wide ? static_cast<std::uint32_t>(std::ceil(scale)) * 2 + 2 : 2;
  taps->first.assign(out, 0);
  taps->count.assign(out, 1);
  taps->weights.assign(std::size_t{out} * taps->most, 0.0f);
  const auto last = static_cast<float>(in - 1);
  for (std::uint32_t x = 0; x < out; ++x) {
    float* weights = taps->weights.data() + std::size_t{x} * taps->most;
    const float centre = (static_cast<float>(x) + 0.5f) * scale;
    if (method == Method::kNearest || method == Method::kNearestFloor) {
      const float at = method == Method::kNearest ? centre : static_cast<float>(x) * scale;
      taps->first[x] = static_cast<std::uint32_t>(std::clamp(std::floor(at), 0.0f, last));
      weights[0] = 1.0f;
      continue;
    }
    if (!wide) {
      const float at = centre - 0.5f;
      const float low = std::floor(at);
      const float share = at - low;
      const auto left = static_cast<std::uint32_t>(std::clamp(low, 0.0f, last));
      const auto right = static_cast<std::uint32_t>(std::clamp(std::ceil(at), 0.0f, last));
      taps->first[x] = left;
      if (left == right) {
        weights[0] = 1.0f;
      } else {
        taps->count[x] = 2;
        weights[0] = 1.0f - share;
        weights[1] = share;
      }
      continue;
    }
    // The triangle over [centre - scale, centre + scale], taps at pixel centres.
    const auto begin =
        static_cast<std::uint32_t>(std::max(0.0f, std::floor(centre - scale + 0.5f)));
    const auto end = static_cast<std::uint32_t>(
        std::min(static_cast<float>(in), std::floor(centre + scale + 0.5f)));
    float total = 0.0f;
    taps->first[x] = begin;
    taps->count[x] = std::min(end - begin, taps->most);
    for (std::uint32_t k = 0; k < taps->count[x]; ++k) {
      const float distance = std::fabs((static_cast<float>(begin + k) + 0.5f - centre) / scale);
      weights[k] = std::max(0.0f, 1.0f - distance);
      total += weights[k];
    }
    for (std::uint32_t k = 0; k < taps->count[x]; ++k) weights[k] /= total;
  }
}

void Resampler::Run(const View& in, std::uint32_t height, std::uint32_t width, Method method,
                    bool antialias, std::vector<float>* out) {
  MakeTaps(in.height, height, method, antialias, &rows_);
  MakeTaps(in.width, width, method, antialias, &columns_);
  const std::size_t row_items = std::size_t{width} * in.channels;
  narrow_.resize(in.height * row_items);
  out->resize(height * row_items);
  for (std::uint32_t y = 0; y < in.height; ++y) {
    float* to = narrow_.data() + y * row_items;
    if (in.bytes != nullptr) {
      Across(in.bytes + y * in.stride, in.channels, width, columns_.first, columns_.count,
             columns_.weights.data(), columns_.most, to);
    } else {
      Across(in.floats + y * in.stride, in.channels, width, columns_.first, columns_.count,
             columns_.weights.data(), columns_.most, to);
    }
  }
  for (std::uint32_t y = 0; y < height; ++y) {
    const float* weights = rows_.weights.data() + std::size_t{y} * rows_.most;
    float* to = out->data() + y * row_items;
    std::fill_n(to, row_items, 0.0f);
    for (std::uint32_t k = 0; k < rows_.count[y]; ++k) {
      const float* from = narrow_.data() + (rows_.first[y] + k) * row_items;
      const float weight = weights[k];
      for (std::size_t i = 0; i < row_items; ++i) to[i] += weight * from[i];
    }
  }
}

}  // namespace stoker::image
