// Colour: torchvision's and TensorFlow's formulas on an image in memory, in place.
//
// Values are those of the pixels, 0 to `range`. Where `whole` is set they are whole numbers before
// and after, cut as the library cuts them: torchvision drops the fraction, TensorFlow takes
// floor(x * (range + 0.5)) of 0 to 1. Else nothing is cut: torchvision's floats are clamped to the
// range, TensorFlow's are not.
//
// Thread-safety: plain functions. Sums run in double in the order of the pixels: the same bits on
// every CPU. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/philox.h"
#include "daemon/image/pixels.h"

namespace stoker::image {

struct Canvas {
  float* pixels = nullptr;  // height x width, kStep items each
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 3;  // 1: all three hold the same, and stay so
  float range = 255.0f;
  bool whole = false;

  std::size_t size() const { return std::size_t{height} * width; }
};

// torchvision.
void AdjustBrightness(const Canvas& canvas, double factor);
void AdjustContrast(const Canvas& canvas, double factor);
void AdjustSaturation(const Canvas& canvas, double factor);
void AdjustHue(const Canvas& canvas, float turn);
void MakeGray(const Canvas& canvas);

// TensorFlow. `delta` is a share of the range.
void AdjustTfBrightness(const Canvas& canvas, float delta);
void AdjustTfContrast(const Canvas& canvas, float factor);
void AdjustTfSaturation(const Canvas& canvas, float factor);
void AdjustTfHue(const Canvas& canvas, float delta);

// Sets a window to one value.
void Fill(const Canvas& canvas, const Window& window, float value);

}  // namespace stoker::image
