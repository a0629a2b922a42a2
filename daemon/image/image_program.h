// ImageProgram: an image's operations, compiled once and run for each row.
//
// Decode, then geometry in the spec's order, then numbers; the last step writes each value once, at
// its final address, in the tensor's dtype and layout. Random ops draw from Philox by seed, row id,
// epoch and op number, so a row's augmentation is the same wherever it is computed.
//
// Thread-safety: a program is immutable; an ImageWorker belongs to one thread and keeps its
// buffers. Errors: Compile() answers kInvalidArgument naming the op and the remedy; Run() a
// FaultClass with
//   a sentence in *detail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/image/jpeg.h"
#include "daemon/image/resample.h"

namespace stoker::image {

enum class Profile : std::uint8_t { kTorchvision, kTf };
enum class OutType : std::uint8_t { kUint8, kFloat32, kFloat16, kBfloat16 };
enum class Layout : std::uint8_t { kNhwc, kNchw };

struct OpSpec {
  enum class Type : std::uint8_t {
    kResize,
    kResizeShorter,
    kCenterCrop,
    kRandomCrop,
    kRandomResizedCrop,
    kFlipHorizontal,
    kFlipVertical,
    kScale,
    kNormalize,
  };
  Type type = Type::kResize;
  std::uint32_t height = 0;  // kResizeShorter: the shorter side
  std::uint32_t width = 0;
  std::uint32_t padding = 0;
  Method method = Method::kBilinear;
  bool antialias = true;
  float probability = 0.5f;
  float scale_min = 0.08f;  // share of the area
  float scale_max = 1.0f;
  float ratio_min = 0.75f;  // width over height
  float ratio_max = 4.0f / 3.0f;
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
  std::uint16_t first_op = 0;  // number of ops[0] among the spec's ops
};

class ImageWorker {
 private:
  friend class ImageProgram;
  Pixels pixels_;
  Resampler resampler_;
  std::vector<float> buffers_[2];
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
  // The image on its way: what is seen of it, and whether it will be mirrored when written.
  struct Stage {
    View view;
    bool mirror_x = false;
    bool mirror_y = false;
    int buffer = 0;
  };

  explicit ImageProgram(const ImageSpec& spec) : spec_(spec) {}
  Status AddNumbers(const OpSpec& op, const std::string& where);
  FaultClass Apply(const OpSpec& op, std::uint32_t number, std::uint64_t seed, std::int64_t row_id,
                   std::uint32_t epoch, ImageWorker* worker, Stage* stage,
                   std::string* detail) const;
  // Answers kImageTooLarge where a step's result would take more memory than an image may.
  FaultClass CheckStep(std::uint64_t height, std::uint64_t width, std::uint64_t channels,
                       std::string* detail) const;
  FaultClass ResizeTo(std::uint64_t to_height, std::uint64_t to_width, const OpSpec& op,
                      ImageWorker* worker, Stage* stage, std::string* detail) const;
  void Crop(std::uint32_t y, std::uint32_t x, std::uint32_t h, std::uint32_t w, Stage* stage) const;
  void Write(const Stage& stage, void* out) const;

  const ImageSpec spec_;
  std::uint32_t height_ = 0;
  std::uint32_t width_ = 0;
  // value * factor + offset for each channel, one after the other.
  struct Affine {
    float factor[4];
    float offset[4];
  };
  std::vector<Affine> numbers_;
};

}  // namespace stoker::image
