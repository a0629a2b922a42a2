#include "daemon/image/crops.h"

#include <algorithm>
#include <cmath>

#include "daemon/image/draws.h"

namespace stoker::image {
namespace {

constexpr int kTries = 10;

std::uint32_t Round(double value) { return static_cast<std::uint32_t>(std::nearbyint(value)); }

struct Shape {
  double area;
  double ratio;
};

// Draws areas uniform in their range, and ratios whose logarithms are.
class ShapeDraws {
 public:
  ShapeDraws(const CropRanges& ranges, double whole)
      : ranges_(ranges),
        whole_(whole),
        log_min_(DrawLog(static_cast<double>(ranges.ratio_min))),
        log_max_(DrawLog(static_cast<double>(ranges.ratio_max))) {}

  Shape Next(RowRandom* random) const {
    Shape shape;
    shape.area = whole_ * (static_cast<double>(ranges_.scale_min) +
                           static_cast<double>(ranges_.scale_max - ranges_.scale_min) *
                               static_cast<double>(random->NextFloat()));
    shape.ratio =
        DrawExp(log_min_ + (log_max_ - log_min_) * static_cast<double>(random->NextFloat()));
    return shape;
  }

 private:
  const CropRanges& ranges_;
  const double whole_;
  const double log_min_;
  const double log_max_;
};

// One try of TensorFlow's rule. False where the drawn window does not fit its own bounds.
bool TryTfCrop(const CropRanges& ranges, std::uint32_t image_height, std::uint32_t image_width,
               RowRandom* random, Window* window) {
  const double image_area = static_cast<double>(image_height) * image_width;
  const double least = image_area * static_cast<double>(ranges.scale_min);
  const double most = image_area * static_cast<double>(ranges.scale_max);
  const double ratio = static_cast<double>(ranges.ratio_min) +
                       static_cast<double>(ranges.ratio_max - ranges.ratio_min) *
                           static_cast<double>(random->NextFloat());
  double height = std::nearbyint(std::sqrt(least / ratio));
  double tallest = std::nearbyint(std::sqrt(most / ratio));
  if (std::nearbyint(tallest * ratio) > image_width) {
    constexpr double kBelowHalf = 0.5 - 1e-7;
    tallest = std::trunc((image_width + kBelowHalf) / ratio);
    if (std::nearbyint(tallest * ratio) > image_width) tallest -= 1;
  }
  tallest = std::min(tallest, static_cast<double>(image_height));
  height = std::min(height, tallest);
  if (height < tallest) {
    height += static_cast<double>(random->Below(static_cast<std::uint64_t>(tallest - height) + 1));
  }
  double width = std::nearbyint(height * ratio);
  if (height * width < least) width = std::nearbyint(++height * ratio);
  if (height * width > most) width = std::nearbyint(--height * ratio);
  const double area = height * width;
  if (area < least || area > most || width > image_width || height > image_height || width < 1 ||
      height < 1) {
    return false;
  }
  *window = {0, 0, static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(width)};
  if (window->h < image_height) {
    window->y = static_cast<std::uint32_t>(random->Below(image_height - window->h));
  }
  if (window->w < image_width) {
    window->x = static_cast<std::uint32_t>(random->Below(image_width - window->w));
  }
  return true;
}

}  // namespace

Window DrawTorchvisionCrop(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                           RowRandom* random) {
  const ShapeDraws draws(ranges, static_cast<double>(height) * width);
  for (int i = 0; i < kTries; ++i) {
    const Shape shape = draws.Next(random);
    const double w = std::nearbyint(std::sqrt(shape.area * shape.ratio));
    const double h = std::nearbyint(std::sqrt(shape.area / shape.ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    Window window = {0, 0, static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(w)};
    window.y = static_cast<std::uint32_t>(random->Below(height - window.h + 1));
    window.x = static_cast<std::uint32_t>(random->Below(width - window.w + 1));
    return window;
  }
  const double ratio = static_cast<double>(width) / height;
  std::uint32_t w = width;
  std::uint32_t h = height;
  if (ratio < static_cast<double>(ranges.ratio_min)) {
    h = Round(width / static_cast<double>(ranges.ratio_min));
  }
  if (ratio > static_cast<double>(ranges.ratio_max)) {
    w = Round(height * static_cast<double>(ranges.ratio_max));
  }
  w = std::clamp<std::uint32_t>(w, 1, width);
  h = std::clamp<std::uint32_t>(h, 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Window DrawTfCrop(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                  RowRandom* random) {
  const float area = static_cast<float>(height) * static_cast<float>(width);
  for (std::uint32_t i = 0; i < ranges.max_attempts; ++i) {
    Window window;
    if (!TryTfCrop(ranges, height, width, random, &window)) continue;
    // In float32, as TensorFlow: a tenth of 40 pixels is then no less than the 0.1 asked for.
    const float share = static_cast<float>(window.h) * static_cast<float>(window.w) / area;
    if (share >= ranges.min_object_covered) return window;
  }
  return {0, 0, height, width};
}

Window DrawErased(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                  RowRandom* random) {
  const ShapeDraws draws(ranges, static_cast<double>(height) * width);
  for (int i = 0; i < kTries; ++i) {
    const Shape shape = draws.Next(random);
    const double h = std::nearbyint(std::sqrt(shape.area * shape.ratio));
    const double w = std::nearbyint(std::sqrt(shape.area / shape.ratio));
    if (h >= height || w >= width) continue;
    Window window = {0, 0, static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(w)};
    window.y = static_cast<std::uint32_t>(random->Below(height - window.h + 1));
    window.x = static_cast<std::uint32_t>(random->Below(width - window.w + 1));
    return window;
  }
  return {0, 0, 0, 0};
}

std::uint64_t LongerSide(std::uint64_t size, std::uint64_t shorter, std::uint64_t longer) {
  return std::max<std::uint64_t>(1, size * longer / shorter);
}

std::uint32_t CentreOffset(std::uint32_t side, std::uint32_t size) {
  return Round((side - size) / 2.0);
}

}  // namespace stoker::image
