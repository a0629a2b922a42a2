// Resampling: separable, in float32, with the taps of TensorFlow's and torchvision's kernels.
//
// Without antialias, bilinear takes the two neighbours of (x + 0.5) * scale - 0.5, clamped; with
// it, a triangle of support max(scale, 1), its weights normalised. NEAREST takes half-pixel
// centres, NEAREST_FLOOR floor(x * in / out). Nothing outside the source is read. Sums run in a
// fixed order and without fused multiply-add: the same bits on every CPU.
//
// Thread-safety: a Resampler belongs to one thread and keeps its tables and rows between images.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::image {

enum class Method : std::uint8_t { kBilinear, kNearest, kNearestFloor, kBicubic, kLanczos3, kArea };

// A rectangle of an image in memory, uint8 or float32, channels last.
struct View {
  const std::uint8_t* bytes = nullptr;  // one of the two
  const float* floats = nullptr;
  std::size_t stride = 0;  // items from one row to the next
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  View Crop(std::uint32_t y, std::uint32_t x, std::uint32_t h, std::uint32_t w) const;
};

class Resampler {
 public:
  // Writes height x width x channels floats. REQUIRES: kBilinear, kNearest or kNearestFloor, and no
  // side of 0.
  void Run(const View& in, std::uint32_t height, std::uint32_t width, Method method, bool antialias,
           std::vector<float>* out);

 private:
  struct Taps {
    std::vector<std::uint32_t> first;  // by output place
    std::vector<std::uint32_t> count;
    std::vector<float> weights;  // `most` for each output place
    std::uint32_t most = 0;
  };
  static void MakeTaps(std::uint32_t in, std::uint32_t out, Method method, bool antialias,
                       Taps* taps);

  Taps rows_;
  Taps columns_;
  std::vector<float> narrow_;  // input rows, resampled across
};

}  // namespace stoker::image
