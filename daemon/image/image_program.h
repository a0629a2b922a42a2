// ImageProgram: an image's operations, compiled once and run for each row.
//
// Decode, then geometry in the spec's order, then numbers. Geometry is first only noted: crops,
// flips and a resize become a window, taps and mirrored taps, so that no more is decoded than is
// seen and each value is written once, at its final address, in the tensor's dtype and layout.
// Random ops draw from Philox by seed, row id, epoch and op number, so a row's augmentation is the
// same wherever it is computed.
//
// Thread-safety: a program is immutable; an ImageWorker belongs to one thread and keeps its
// buffers. Errors: Compile() answers kInvalidArgument naming the op and the remedy; Run() a
// FaultClass with a sentence in *detail, also where there is no memory for the image.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/image/crops.h"
#include "daemon/image/decode.h"
#include "daemon/image/resample.h"

namespace stoker::image {

struct OpSpec {
  enum class Type : std::uint8_t {
    kResize,
    kResizeShorter,
    kCenterCrop,
    kRandomCrop,
    kRandomResizedCrop,
    kFlipHorizontal,
    kFlipVertical,
    kColorJitter,
    kGrayscale,
    kTfBrightness,
    kTfContrast,
    kTfSaturation,
    kTfHue,
    kErase,
    kCutout,
    kScale,
    kNormalize,
  };
  Type type = Type::kResize;
  std::uint16_t number = 0;  // among the spec's ops, as its text counts them: keys the draws
  std::uint32_t height = 0;  // kResizeShorter: the shorter side; kCutout: both
  std::uint32_t width = 0;
  std::uint32_t padding = 0;
  Method method = Method::kBilinear;
  bool antialias = true;
  float probability = 0.5f;
  CropRule rule = CropRule::kTorchvision;
  CropRanges crop;          // kErase: its ratio is height over width
  float brightness = 0.0f;  // kColorJitter
  float contrast = 0.0f;
  float saturation = 0.0f;
  float hue = 0.0f;
  float lower = 0.0f;  // what kTf… draws from
  float upper = 0.0f;
  float value = 0.0f;  // kErase, kCutout
  float factor = 1.0f;
  float offset = 0.0f;
  bool scale_to_unit = true;
  std::vector<float> mean;
  std::vector<float> std;
};

struct ImageSpec {
  DecodeOptions decode;
  Profile profile = Profile::kTorchvision;
  std::vector<OpSpec> ops;
  OutType out = OutType::kUint8;
  Layout layout = Layout::kNhwc;
  // Images of one group, not 0, must have one size in each row: their geometry is one.
  std::uint32_t group = 0;
};

class ImageWorker {
 private:
  friend class ImageProgram;
  friend class ImageRun;
  Decoder decoder_;
  Resampler resampler_;
  Taps rows_;
  Taps columns_;
  Taps identity_;
  std::vector<float> buffers_[2];
  std::vector<float> between_;
  // The size of the row's first image in each group.
  struct GroupSize {
    std::int64_t row_id = -1;
    std::uint32_t epoch = 0;
    std::uint32_t height = 0;
    std::uint32_t width = 0;
  };
  std::vector<GroupSize> groups_;

  // Gives back the memory that a huge image took.
  void Trim();
};

class ImageProgram {
 public:
  static Result<std::shared_ptr<const ImageProgram>> Compile(const ImageSpec& spec);

  std::uint32_t height() const { return height_; }
  std::uint32_t width() const { return width_; }
  std::uint32_t channels() const { return spec_.decode.channels; }
  std::uint64_t row_bytes() const;

  // Writes row_bytes() bytes at `out`.
  FaultClass Run(ImageWorker& worker, std::span<const std::byte> encoded, std::uint64_t seed,
                 std::int64_t row_id, std::uint32_t epoch, void* out, ImageCounters* counters,
                 std::string* detail) const;

 private:
  explicit ImageProgram(const ImageSpec& spec) : spec_(spec) {}
  Status AddGeometry(const OpSpec& op, const std::string& where);
  Status CheckColour(const OpSpec& op, const std::string& where) const;
  FaultClass CheckGroup(ImageWorker* worker, std::int64_t row_id, std::uint32_t epoch,
                        std::string* detail) const;
  Status AddNumbers(const OpSpec& op, const std::string& where);

  const ImageSpec spec_;
  std::uint32_t height_ = 0;
  std::uint32_t width_ = 0;
  Affine numbers_;  // of all scale and normalize, one after the other
};

}  // namespace stoker::image
