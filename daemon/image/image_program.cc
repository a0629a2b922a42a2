#include "daemon/image/image_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "daemon/base/half.h"
#include "daemon/base/philox.h"
#include "daemon/image/draws.h"

namespace stoker::image {
namespace {

using Type = OpSpec::Type;

constexpr int kCropTries = 10;
constexpr std::uint32_t kLargestSide = 65536;
// A long, thin image grows without measure when its shorter side is brought to size, so a step's
// result is bounded like a decoded image. Places in a row stay exact in float32 below 2^24.
constexpr std::uint64_t kLargestStepSide = std::uint64_t{1} << 24;
constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 30;

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

bool AllFinite(std::initializer_list<float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

bool IsNumbers(Type type) { return type == Type::kScale || type == Type::kNormalize; }

struct Window {
  std::uint32_t y, x, h, w;
};

// torchvision's RandomResizedCrop: ten tries, then the centre at the nearest allowed ratio.
Window DrawWindow(const OpSpec& op, std::uint32_t height, std::uint32_t width, RowRandom* random) {
  const double area = static_cast<double>(height) * width;
  const double log_min = DrawLog(op.ratio_min);
  const double log_max = DrawLog(op.ratio_max);
  for (int i = 0; i < kCropTries; ++i) {
    const double target = area * (op.scale_min + (op.scale_max - op.scale_min) *
                                                     static_cast<double>(random->NextFloat()));
    const double ratio =
        DrawExp(log_min + (log_max - log_min) * static_cast<double>(random->NextFloat()));
    const double w = std::nearbyint(std::sqrt(target * ratio));
    const double h = std::nearbyint(std::sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    Window window = {0, 0, static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(w)};
    window.y = static_cast<std::uint32_t>(random->Below(height - window.h + 1));
    window.x = static_cast<std::uint32_t>(random->Below(width - window.w + 1));
    return window;
  }
  const double ratio = static_cast<double>(width) / height;
  std::uint32_t w = width;
  std::uint32_t h = height;
  if (ratio < op.ratio_min)
    h = static_cast<std::uint32_t>(std::nearbyint(width / static_cast<double>(op.ratio_min)));
  if (ratio > op.ratio_max)
    w = static_cast<std::uint32_t>(std::nearbyint(height * static_cast<double>(op.ratio_max)));
  w = std::clamp<std::uint32_t>(w, 1, width);
  h = std::clamp<std::uint32_t>(h, 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

std::uint8_t ToByte(float value) {
  return static_cast<std::uint8_t>(std::nearbyint(std::clamp(value, 0.0f, 255.0f)));
}

}  // namespace

Result<std::shared_ptr<const ImageProgram>> ImageProgram::Compile(const ImageSpec& spec) {
  std::shared_ptr<ImageProgram> program(new ImageProgram(spec));
  bool numbers = false;
  for (std::size_t i = 0; i < spec.ops.size(); ++i) {
    const OpSpec& op = spec.ops[i];
    const std::string where = "op[" + std::to_string(i) + "]";
    if (IsNumbers(op.type)) {
      numbers = true;
      STOKER_TRY(program->AddNumbers(op, where));
      continue;
    }
    if (numbers) return Wrong(where, "geometry comes before scale and normalize");
    if (op.type == Type::kFlipHorizontal || op.type == Type::kFlipVertical) {
      if (!(op.probability >= 0.0f && op.probability <= 1.0f)) {
        return Wrong(where, "probability is 0 to 1");
      }
      continue;
    }
    if (op.height == 0 || (op.width == 0 && op.type != Type::kResizeShorter) ||
        op.height > kLargestSide || op.width > kLargestSide) {
      return Wrong(where, "height, width and size are 1 to 65536");
    }
    if (op.method != Method::kBilinear && op.method != Method::kNearest &&
        op.method != Method::kNearestFloor) {
      return Wrong(where + ".method",
                   "BILINEAR, NEAREST and NEAREST_FLOOR are served by this version");
    }
    if (op.type == Type::kRandomResizedCrop &&
        !(AllFinite({op.ratio_min, op.ratio_max}) && op.scale_min > 0.0f &&
          op.scale_min <= op.scale_max && op.scale_max <= 1.0f && op.ratio_min > 0.0f &&
          op.ratio_min <= op.ratio_max)) {
      return Wrong(where,
                   "scale is two shares of 0 to 1 and ratio two positive numbers, each rising");
    }
    if (op.type == Type::kResizeShorter) {
      program->height_ = 0;  // the longer side differs from image to image
      continue;
    }
    program->height_ = op.height;
    program->width_ = op.width;
  }
  if (program->height_ == 0) {
    return Wrong("op",
                 "images of one batch need one size; end the geometry with resize, "
                 "center_crop, random_crop or random_resized_crop");
  }
  if (numbers && spec.out == OutType::kUint8) {
    return Wrong("dtype", "scale and normalize give floats; use FLOAT32, FLOAT16 or BFLOAT16");
  }
  return std::shared_ptr<const ImageProgram>(std::move(program));
}

Status ImageProgram::AddNumbers(const OpSpec& op, const std::string& where) {
  Affine affine = {};
  for (std::uint32_t c = 0; c < channels(); ++c) {
    if (op.type == Type::kScale) {
      if (!AllFinite({op.factor, op.offset})) {
        return Wrong(where, "factor and offset are finite numbers");
      }
      affine.factor[c] = op.factor;
      affine.offset[c] = op.offset;
      continue;
    }
    for (const auto& list : {op.mean, op.std}) {
      if (list.size() > 1 && list.size() != channels()) {
        return Wrong(where, "mean and std take one value, or one a channel");
      }
    }
    const auto finite = [](float v) { return std::isfinite(v); };
    if (!std::all_of(op.mean.begin(), op.mean.end(), finite) ||
        !std::all_of(op.std.begin(), op.std.end(), finite)) {
      return Wrong(where, "mean and std are finite numbers");
    }
    const double mean = op.mean.empty() ? 0.0 : op.mean[op.mean.size() == 1 ? 0 : c];
    const double std = op.std.empty() ? 1.0 : op.std[op.std.size() == 1 ? 0 : c];
    if (std == 0.0) return Wrong(where, "std must not be 0");
    affine.factor[c] = static_cast<float>(1.0 / (std * (op.scale_to_unit ? 255.0 : 1.0)));
    affine.offset[c] = static_cast<float>(-mean / std);
  }
  numbers_.push_back(affine);
  return Status();
}

std::uint64_t ImageProgram::row_bytes() const {
  const std::uint64_t item = spec_.out == OutType::kUint8     ? 1
                             : spec_.out == OutType::kFloat32 ? 4
                                                              : 2;
  return std::uint64_t{height_} * width_ * channels() * item;
}

FaultClass ImageProgram::Run(ImageWorker& worker, std::span<const std::byte> encoded,
                             std::uint64_t seed, std::int64_t row_id, std::uint32_t epoch,
                             void* out, ImageCounters* counters, std::string* detail) const {
  const std::string_view format = FormatName(encoded);
  if (format != "JPEG") {
    *detail = "it is " + std::string(format) + "; JPEG is decoded";
    return FaultClass::kUnsupportedImageFormat;
  }
  FaultClass fault = DecodeJpeg(encoded, spec_.decode, &worker.pixels_, counters, detail);
  if (fault != FaultClass::kNone) return fault;
  const Pixels& pixels = worker.pixels_;
  Stage stage;
  stage.view = {pixels.data.data(), nullptr,      std::size_t{pixels.width} * pixels.channels,
                pixels.height,      pixels.width, pixels.channels};
  for (std::size_t i = 0; i < spec_.ops.size(); ++i) {
    if (IsNumbers(spec_.ops[i].type)) break;
    fault = Apply(spec_.ops[i], static_cast<std::uint32_t>(spec_.first_op + i), seed, row_id, epoch,
                  &worker, &stage, detail);
    if (fault != FaultClass::kNone) return fault;
  }
  Write(stage, out);
  return FaultClass::kNone;
}

FaultClass ImageProgram::Apply(const OpSpec& op, std::uint32_t number, std::uint64_t seed,
                               std::int64_t row_id, std::uint32_t epoch, ImageWorker* worker,
                               Stage* stage, std::string* detail) const {
  RowRandom random(seed, row_id, epoch, number);
  const std::uint32_t height = stage->view.height;
  const std::uint32_t width = stage->view.width;
  switch (op.type) {
    case Type::kResize:
      return ResizeTo(op.height, op.width, op, worker, stage, detail);
    case Type::kResizeShorter: {
      // The longer side is cut to whole pixels, as torchvision does.
      const std::uint64_t shorter = std::min(height, width);
      const auto side = [&](std::uint64_t of) {
        return std::max<std::uint64_t>(1, op.height * of / shorter);
      };
      return ResizeTo(side(height), side(width), op, worker, stage, detail);
    }
    case Type::kCenterCrop:
      if (op.height > height || op.width > width) {
        *detail = "center_crop of " + std::to_string(op.height) + " x " + std::to_string(op.width) +
                  " from an image of " + std::to_string(height) + " x " + std::to_string(width);
        return FaultClass::kBadImage;
      }
      Crop(static_cast<std::uint32_t>(std::nearbyint((height - op.height) / 2.0)),
           static_cast<std::uint32_t>(std::nearbyint((width - op.width) / 2.0)), op.height,
           op.width, stage);
      break;
    case Type::kRandomCrop: {
      if (op.padding > 0) {
        // Zeros around, in a copy: crops of padded images are small.
        const std::uint64_t border = 2 * std::uint64_t{op.padding};
        const FaultClass fault =
            CheckStep(height + border, width + border, stage->view.channels, detail);
        if (fault != FaultClass::kNone) return fault;
        const std::uint32_t c = stage->view.channels;
        const std::size_t stride = (std::size_t{width} + 2 * op.padding) * c;
        auto& to = worker->buffers_[stage->buffer];
        to.assign(stride * (height + 2 * op.padding), 0.0f);
        for (std::uint32_t y = 0; y < height; ++y) {
          float* row = to.data() + (y + op.padding) * stride + std::size_t{op.padding} * c;
          for (std::size_t i = 0; i < std::size_t{width} * c; ++i) {
            row[i] = stage->view.bytes != nullptr
                         ? static_cast<float>(stage->view.bytes[y * stage->view.stride + i])
                         : stage->view.floats[y * stage->view.stride + i];
          }
        }
        stage->view = {nullptr, to.data(), stride, height + 2 * op.padding, width + 2 * op.padding,
                       c};
        stage->buffer ^= 1;
      }
      if (op.height > stage->view.height || op.width > stage->view.width) {
        *detail = "random_crop of " + std::to_string(op.height) + " x " + std::to_string(op.width) +
                  " from an image of " + std::to_string(height) + " x " + std::to_string(width);
        return FaultClass::kBadImage;
      }
      const auto y = static_cast<std::uint32_t>(random.Below(stage->view.height - op.height + 1));
      const auto x = static_cast<std::uint32_t>(random.Below(stage->view.width - op.width + 1));
      Crop(y, x, op.height, op.width, stage);
      break;
    }
    case Type::kRandomResizedCrop: {
      const Window window = DrawWindow(op, height, width, &random);
      Crop(window.y, window.x, window.h, window.w, stage);
      return ResizeTo(op.height, op.width, op, worker, stage, detail);
    }
    case Type::kFlipHorizontal:
      stage->mirror_x = stage->mirror_x != (random.NextFloat() < op.probability);
      break;
    case Type::kFlipVertical:
      stage->mirror_y = stage->mirror_y != (random.NextFloat() < op.probability);
      break;
    case Type::kScale:
    case Type::kNormalize:
      break;
  }
  return FaultClass::kNone;
}

// A crop of what will be mirrored is the mirrored place of what is there.
void ImageProgram::Crop(std::uint32_t y, std::uint32_t x, std::uint32_t h, std::uint32_t w,
                        Stage* stage) const {
  if (stage->mirror_y) y = stage->view.height - y - h;
  if (stage->mirror_x) x = stage->view.width - x - w;
  stage->view = stage->view.Crop(y, x, h, w);
}

FaultClass ImageProgram::CheckStep(std::uint64_t height, std::uint64_t width,
                                   std::uint64_t channels, std::string* detail) const {
  const std::uint64_t most = std::max(kStepBytes, spec_.decode.max_decoded_bytes);
  if (height <= kLargestStepSide && width <= kLargestStepSide &&
      height * width <= most / (channels * sizeof(float))) {
    return FaultClass::kNone;
  }
  *detail = "an op would make " + std::to_string(height) + " x " + std::to_string(width) +
            " pixels, over a side of " + std::to_string(kLargestStepSide) + " or " +
            std::to_string(most) + " bytes as float32";
  return FaultClass::kImageTooLarge;
}

FaultClass ImageProgram::ResizeTo(std::uint64_t to_height, std::uint64_t to_width, const OpSpec& op,
                                  ImageWorker* worker, Stage* stage, std::string* detail) const {
  const View& from = stage->view;
  if (to_height == from.height && to_width == from.width) return FaultClass::kNone;
  // The rows are resampled across first: what lies between is from.height x to_width.
  const FaultClass fault =
      CheckStep(std::max<std::uint64_t>(to_height, from.height), to_width, from.channels, detail);
  if (fault != FaultClass::kNone) return fault;
  const auto height = static_cast<std::uint32_t>(to_height);
  const auto width = static_cast<std::uint32_t>(to_width);
  auto& to = worker->buffers_[stage->buffer];
  worker->resampler_.Run(stage->view, height, width, op.method, op.antialias, &to);
  stage->view = {nullptr, to.data(), std::size_t{width} * stage->view.channels,
                 height,  width,     stage->view.channels};
  stage->buffer ^= 1;
  return FaultClass::kNone;
}

void ImageProgram::Write(const Stage& stage, void* out) const {
  const View& view = stage.view;
  const std::uint32_t channel_count = view.channels;
  const std::size_t plane = std::size_t{view.height} * view.width;
  const bool planes = spec_.layout == Layout::kNchw;
  for (std::uint32_t y = 0; y < view.height; ++y) {
    const std::uint32_t from_y = stage.mirror_y ? view.height - 1 - y : y;
    for (std::uint32_t x = 0; x < view.width; ++x) {
      const std::uint32_t from_x = stage.mirror_x ? view.width - 1 - x : x;
      const std::size_t from = from_y * view.stride + std::size_t{from_x} * channel_count;
      const std::size_t place = std::size_t{y} * view.width + x;
      for (std::uint32_t c = 0; c < channel_count; ++c) {
        float value = view.bytes != nullptr ? static_cast<float>(view.bytes[from + c])
                                            : view.floats[from + c];
        for (const Affine& affine : numbers_) value = value * affine.factor[c] + affine.offset[c];
        const std::size_t to = planes ? c * plane + place : place * channel_count + c;
        switch (spec_.out) {
          case OutType::kUint8:
            static_cast<std::uint8_t*>(out)[to] = ToByte(value);
            break;
          case OutType::kFloat32:
            static_cast<float*>(out)[to] = value;
            break;
          case OutType::kFloat16:
            static_cast<std::uint16_t*>(out)[to] = ToFloat16(value);
            break;
          case OutType::kBfloat16:
            static_cast<std::uint16_t*>(out)[to] = ToBfloat16(value);
            break;
        }
      }
    }
  }
}

}  // namespace stoker::image
