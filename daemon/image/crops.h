// Crops: which window of an image an operation shows, and the sizes that follow from an image's.
//
// Draws come from RowRandom alone; exp, log and rounding are equal on every CPU.
// Thread-safety: plain functions.
#pragma once

#include <cstdint>

#include "daemon/base/philox.h"
#include "daemon/image/pixels.h"

namespace stoker::image {

enum class CropRule : std::uint8_t { kTorchvision, kTf };

// Shares of the area and width over height, each from the first to the second.
struct CropRanges {
  float scale_min = 0.08f;
  float scale_max = 1.0f;
  float ratio_min = 0.75f;
  float ratio_max = 4.0f / 3.0f;
  float min_object_covered = 0.1f;   // kTf: smaller areas are drawn again
  std::uint32_t max_attempts = 100;  // kTf: then the whole image
};

// torchvision's RandomResizedCrop: ten tries, then the centre at the nearest allowed ratio.
Window DrawTorchvisionCrop(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                           RowRandom* random);

// TensorFlow's sample_distorted_bounding_box over the whole image. Its offsets never take the last
// place.
Window DrawTfCrop(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                  RowRandom* random);

// torchvision's RandomErasing: ten tries for a rectangle smaller than the image on both sides, else
// nothing. The ratio is height over width.
Window DrawErased(const CropRanges& ranges, std::uint32_t height, std::uint32_t width,
                  RowRandom* random);

// The longer side where the shorter becomes `size`: cut to whole pixels, as torchvision does.
std::uint64_t LongerSide(std::uint64_t size, std::uint64_t shorter, std::uint64_t longer);

// Where a centre crop of `size` begins in a side of `side`, as torchvision rounds.
std::uint32_t CentreOffset(std::uint32_t side, std::uint32_t size);

}  // namespace stoker::image
