#include "daemon/image/image_program.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <initializer_list>

#include "daemon/base/philox.h"
#include "daemon/image/image_run.h"

namespace stoker::image {
namespace {

using Type = OpSpec::Type;

constexpr std::uint32_t kLargestSide = 65536;

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

bool AllFinite(std::initializer_list<float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

bool IsColour(Type type) { return type >= Type::kColorJitter && type <= Type::kCutout; }

bool IsNumbers(Type type) { return type == Type::kScale || type == Type::kNormalize; }

Status CheckCrop(const OpSpec& op, const std::string& where) {
  const CropRanges& crop = op.crop;
  if (!AllFinite({crop.ratio_min, crop.ratio_max}) || !(crop.scale_min > 0.0f) ||
      !(crop.scale_min <= crop.scale_max && crop.scale_max <= 1.0f) || !(crop.ratio_min > 0.0f) ||
      !(crop.ratio_min <= crop.ratio_max)) {
    return Wrong(where,
                 "scale is two shares of 0 to 1 and ratio two positive numbers, each rising");
  }
  if (!(crop.min_object_covered >= 0.0f && crop.min_object_covered <= 1.0f)) {
    return Wrong(where + ".min_object_covered", "is 0 to 1");
  }
  return Status();
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
    if (numbers) return Wrong(where, "geometry and colour come before scale and normalize");
    if (IsColour(op.type)) {
      STOKER_TRY(program->CheckColour(op, where));
      continue;
    }
    STOKER_TRY(program->AddGeometry(op, where));
  }
  if (program->height_ == 0) {
    return Wrong("op",
                 "images of one batch need one size; end the geometry with resize, "
                 "center_crop, random_crop or random_resized_crop");
  }
  if (numbers && (spec.out == OutType::kUint8 || spec.out == OutType::kUint16)) {
    return Wrong("dtype", "scale and normalize give floats; use FLOAT32, FLOAT16 or BFLOAT16");
  }
  return std::shared_ptr<const ImageProgram>(std::move(program));
}

Status ImageProgram::AddGeometry(const OpSpec& op, const std::string& where) {
  if (op.type == Type::kFlipHorizontal || op.type == Type::kFlipVertical) {
    if (op.probability >= 0.0f && op.probability <= 1.0f) return Status();
    return Wrong(where, "probability is 0 to 1");
  }
  if (op.height == 0 || (op.width == 0 && op.type != Type::kResizeShorter) ||
      op.height > kLargestSide || op.width > kLargestSide) {
    return Wrong(where, "height, width and size are 1 to 65536");
  }
  if (op.type == Type::kRandomResizedCrop) STOKER_TRY(CheckCrop(op, where));
  // After resize_shorter the longer side differs from image to image.
  height_ = op.type == Type::kResizeShorter ? 0 : op.height;
  width_ = op.width;
  return Status();
}

Status ImageProgram::CheckColour(const OpSpec& op, const std::string& where) const {
  if (!AllFinite({op.brightness, op.contrast, op.saturation, op.hue, op.lower, op.upper, op.value,
                  op.probability})) {
    return Wrong(where, "takes finite numbers");
  }
  const bool needs_colour = op.type == Type::kGrayscale || op.type == Type::kTfSaturation ||
                            op.type == Type::kTfHue || op.saturation != 0.0f || op.hue != 0.0f;
  if (needs_colour && channels() != 3) return Wrong(where, "needs 3 channels");
  if (op.type == Type::kErase) return CheckCrop(op, where);
  if (op.type == Type::kCutout && (op.height == 0 || op.height > kLargestSide)) {
    return Wrong(where, "size is 1 to 65536");
  }
  return Status();
}

Status ImageProgram::AddNumbers(const OpSpec& op, const std::string& where) {
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!AllFinite({op.factor, op.offset})) {
    return Wrong(where, "factor and offset are finite numbers");
  }
  if (!std::all_of(op.mean.begin(), op.mean.end(), finite) ||
      !std::all_of(op.std.begin(), op.std.end(), finite)) {
    return Wrong(where, "mean and std are finite numbers");
  }
  for (const auto& list : {op.mean, op.std}) {
    if (list.size() > 1 && list.size() != channels()) {
      return Wrong(where, "mean and std take one value, or one a channel");
    }
  }
  for (std::uint32_t c = 0; c < channels(); ++c) {
    double factor = static_cast<double>(op.factor);
    double offset = static_cast<double>(op.offset);
    if (op.type == Type::kNormalize) {
      const double mean = op.mean.empty() ? 0.0 : op.mean[op.mean.size() == 1 ? 0 : c];
      const double std = op.std.empty() ? 1.0 : op.std[op.std.size() == 1 ? 0 : c];
      if (std == 0.0) return Wrong(where, "std must not be 0");
      factor = 1.0 / (std * (op.scale_to_unit ? 255.0 : 1.0));
      offset = -mean / std;
    }
    // Behind what came before.
    numbers_.offset[c] = static_cast<float>(numbers_.offset[c] * factor + offset);
    numbers_.factor[c] = static_cast<float>(numbers_.factor[c] * factor);
  }
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
  FaultClass fault = FaultClass::kNone;
  try {
    ImageRun run(spec_, &worker, detail);
    fault = run.Open(encoded, counters);
    if (fault == FaultClass::kNone && spec_.group != 0) {
      fault = CheckGroup(&worker, row_id, epoch, detail);
    }
    for (const OpSpec& op : spec_.ops) {
      if (fault != FaultClass::kNone || IsNumbers(op.type)) break;
      fault = run.Apply(op, RowRandom(seed, row_id, epoch, op.number));
    }
    if (fault == FaultClass::kNone) fault = run.Write(numbers_, out);
  } catch (const std::exception&) {
    *detail = "no memory for an image of " + std::to_string(worker.decoder_.height()) + " x " +
              std::to_string(worker.decoder_.width()) + " pixels";
    fault = FaultClass::kImageTooLarge;
  }
  worker.decoder_.Close(counters);
  worker.Trim();
  return fault;
}

FaultClass ImageProgram::CheckGroup(ImageWorker* worker, std::int64_t row_id, std::uint32_t epoch,
                                    std::string* detail) const {
  if (worker->groups_.size() < spec_.group) worker->groups_.resize(spec_.group);
  auto& first = worker->groups_[spec_.group - 1];
  const std::uint32_t height = worker->decoder_.height();
  const std::uint32_t width = worker->decoder_.width();
  if (first.row_id != row_id || first.epoch != epoch) {
    first = {row_id, epoch, height, width};
    return FaultClass::kNone;
  }
  if (first.height == height && first.width == width) return FaultClass::kNone;
  *detail = "is " + std::to_string(height) + " x " + std::to_string(width) +
            " pixels, and another image of its group " + std::to_string(first.height) + " x " +
            std::to_string(first.width);
  return FaultClass::kBadImage;
}

void ImageWorker::Trim() {
  constexpr std::size_t kKeptFloats = std::size_t{16} << 20;  // 64 MiB
  decoder_.Trim();
  for (std::vector<float>* buffer : {&buffers_[0], &buffers_[1], &between_}) {
    if (buffer->size() > kKeptFloats) std::vector<float>().swap(*buffer);
  }
}

}  // namespace stoker::image
