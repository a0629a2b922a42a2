#include "config/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace stoker::config {
namespace {

constexpr std::uint32_t kMaxPixels = 65536;  // of a side
constexpr std::uint32_t kMaxAttempts = 10000;
constexpr std::uint32_t kMaxDepth = 1u << 20;
constexpr std::int64_t kMaxSide = (std::int64_t{1} << 31) - 1;
constexpr double kMaxRowValues = 1e12;

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

// Every comparison below is written so that NaN fails it.
bool IsShare(float value) { return value >= 0.0f && value <= 1.0f; }

template <typename Message>
void FillAntialias(Message* op, bool on) {
  if (!op->has_antialias()) op->set_antialias(on);
}

void FillFlip(v1::RandomFlip* flip) {
  if (!flip->has_probability()) flip->set_probability(0.5f);
}

void FillCrop(v1::RandomResizedCrop* crop, bool tf) {
  if (crop->scale_size() == 0) {
    crop->add_scale(0.08f);
    crop->add_scale(1.0f);
  }
  if (crop->ratio_size() == 0) {
    crop->add_ratio(0.75f);
    crop->add_ratio(4.0f / 3.0f);
  }
  if (crop->rule() == v1::RandomResizedCrop::RULE_DEFAULT) {
    crop->set_rule(tf ? v1::RandomResizedCrop::RULE_TF : v1::RandomResizedCrop::RULE_TORCHVISION);
  }
  if (crop->rule() == v1::RandomResizedCrop::RULE_TF) {
    if (!crop->has_min_object_covered()) crop->set_min_object_covered(0.1f);
    if (!crop->has_max_attempts()) crop->set_max_attempts(100);
  }
  FillAntialias(crop, !tf);
}

void FillErasing(v1::RandomErasing* erasing) {
  if (!erasing->has_probability()) erasing->set_probability(0.5f);
  if (erasing->scale_size() == 0) {
    erasing->add_scale(0.02f);
    erasing->add_scale(0.33f);
  }
  if (erasing->ratio_size() == 0) {
    erasing->add_ratio(0.3f);
    erasing->add_ratio(3.3f);
  }
}

template <typename Message>
Status CheckSize(const Message& op, const std::string& where) {
  if (op.height() < 1 || op.height() > kMaxPixels) {
    return Wrong(where + ".height", "is required, 1 to 65536");
  }
  if (op.width() < 1 || op.width() > kMaxPixels) {
    return Wrong(where + ".width", "is required, 1 to 65536");
  }
  return Status();
}

// Two values, the smaller first, within (0, most].
template <typename List>
Status CheckRange(const List& list, float most, const std::string& where, const char* range) {
  if (list.size() != 2) return Wrong(where, "takes two values, the smaller first");
  if (!(list[0] > 0.0f && list[0] <= list[1] && list[1] <= most)) {
    return Wrong(where, std::string("takes two values, the smaller first, ") + range);
  }
  return Status();
}

Status CheckCrop(const v1::RandomResizedCrop& crop, const std::string& where) {
  STOKER_TRY(CheckSize(crop, where));
  STOKER_TRY(CheckRange(crop.scale(), 1.0f, where + ".scale", "above 0 and at most 1"));
  STOKER_TRY(CheckRange(crop.ratio(), 1000.0f, where + ".ratio", "above 0 and at most 1000"));
  if (!IsShare(crop.min_object_covered())) return Wrong(where + ".min_object_covered", "is 0 to 1");
  if (crop.has_max_attempts() && (crop.max_attempts() < 1 || crop.max_attempts() > kMaxAttempts)) {
    return Wrong(where + ".max_attempts", "is 1 to 10000");
  }
  return Status();
}

Status CheckWithin(float value, float least, float most, const std::string& where,
                   const char* range) {
  return value >= least && value <= most ? Status() : Wrong(where, range);
}

Status CheckJitter(const v1::ColorJitter& jitter, const std::string& where) {
  STOKER_TRY(CheckWithin(jitter.brightness(), 0, 100, where + ".brightness", "is 0 to 100"));
  STOKER_TRY(CheckWithin(jitter.contrast(), 0, 100, where + ".contrast", "is 0 to 100"));
  STOKER_TRY(CheckWithin(jitter.saturation(), 0, 100, where + ".saturation", "is 0 to 100"));
  return CheckWithin(jitter.hue(), 0, 0.5f, where + ".hue", "is 0 to 0.5");
}

// random_contrast and random_saturation.
template <typename Message>
Status CheckFactors(const Message& op, const std::string& where) {
  if (op.lower() >= 0.0f && op.lower() < op.upper() && op.upper() <= 100.0f) return Status();
  return Wrong(where, "lower is 0 or more, upper above it and at most 100");
}

Status CheckErasing(const v1::RandomErasing& erasing, const std::string& where) {
  if (!IsShare(erasing.probability())) return Wrong(where + ".probability", "is 0 to 1");
  STOKER_TRY(CheckRange(erasing.scale(), 1.0f, where + ".scale", "above 0 and at most 1"));
  STOKER_TRY(CheckRange(erasing.ratio(), 1000.0f, where + ".ratio", "above 0 and at most 1000"));
  return CheckWithin(erasing.value(), 0, 65535, where + ".value", "is 0 to 65535");
}

Status CheckCutout(const v1::Cutout& cutout, const std::string& where) {
  if (cutout.size() < 1 || cutout.size() > kMaxPixels) {
    return Wrong(where + ".size", "is required, 1 to 65536");
  }
  return CheckWithin(cutout.value(), 0, 65535, where + ".value", "is 0 to 65535");
}

Status CheckFlip(const v1::RandomFlip& flip, const std::string& where) {
  return IsShare(flip.probability()) ? Status() : Wrong(where + ".probability", "is 0 to 1");
}

Status CheckNormalize(const v1::Normalize& normalize, const std::string& where) {
  const auto finite = [](const auto& list) {
    return std::all_of(list.begin(), list.end(), [](float v) { return std::isfinite(v); });
  };
  if (!finite(normalize.mean())) return Wrong(where + ".mean", "takes finite numbers");
  if (!finite(normalize.std())) return Wrong(where + ".std", "takes finite numbers");
  if (std::count(normalize.std().begin(), normalize.std().end(), 0.0f) > 0) {
    return Wrong(where + ".std", "must not be 0");
  }
  return Status();
}

Status CheckOneHot(const v1::OneHot& one_hot, const std::string& where) {
  if (one_hot.depth() < 1 || one_hot.depth() > kMaxDepth) {
    return Wrong(where + ".depth", "is required, 1 to 1048576");
  }
  if (!IsShare(one_hot.smoothing())) return Wrong(where + ".smoothing", "is 0 to 1");
  if (!std::isfinite(one_hot.on())) return Wrong(where + ".on", "is a finite number");
  if (!std::isfinite(one_hot.off())) return Wrong(where + ".off", "is a finite number");
  return Status();
}

Status CheckReshape(const v1::Reshape& reshape, const std::string& where) {
  if (reshape.shape_size() > 7) return Wrong(where + ".shape", "has at most 7 sides");
  if (std::count(reshape.shape().begin(), reshape.shape().end(), -1) > 1) {
    return Wrong(where + ".shape", "only one side may be -1");
  }
  double values = 1;
  for (const auto side : reshape.shape()) {
    if (side < -1 || side > kMaxSide) {
      return Wrong(where + ".shape", "sides are 0 to 2147483647, and one may be -1");
    }
    values *= static_cast<double>(std::max<std::int64_t>(side, 1));
  }
  if (values > kMaxRowValues) return Wrong(where + ".shape", "holds more than 10^12 values");
  return Status();
}

Status CheckScale(const v1::Scale& scale, const std::string& where) {
  if (!std::isfinite(scale.factor())) return Wrong(where + ".factor", "is a finite number");
  if (!std::isfinite(scale.offset())) return Wrong(where + ".offset", "is a finite number");
  return Status();
}

Status CheckOp(const v1::Op& op, const std::string& where) {
  switch (op.op_case()) {
    case v1::Op::kCast:
      if (op.cast().dtype() == v1::DTYPE_UNSPECIFIED || op.cast().dtype() == v1::BYTES) {
        return Wrong(where + ".dtype", "is required, and the dtype of a number");
      }
      return Status();
    case v1::Op::kScale:
      return CheckScale(op.scale(), where);
    case v1::Op::kNormalize:
      return CheckNormalize(op.normalize(), where);
    case v1::Op::kOneHot:
      return CheckOneHot(op.one_hot(), where);
    case v1::Op::kReshape:
      return CheckReshape(op.reshape(), where);
    case v1::Op::kResize:
      return CheckSize(op.resize(), where);
    case v1::Op::kResizeShorter:
      if (op.resize_shorter().size() < 1 || op.resize_shorter().size() > kMaxPixels) {
        return Wrong(where + ".size", "is required, 1 to 65536");
      }
      return Status();
    case v1::Op::kCenterCrop:
      return CheckSize(op.center_crop(), where);
    case v1::Op::kRandomCrop:
      if (op.random_crop().padding() > kMaxPixels) {
        return Wrong(where + ".padding", "is at most 65536");
      }
      return CheckSize(op.random_crop(), where);
    case v1::Op::kRandomResizedCrop:
      return CheckCrop(op.random_resized_crop(), where);
    case v1::Op::kRandomFlipHorizontal:
      return CheckFlip(op.random_flip_horizontal(), where);
    case v1::Op::kRandomFlipVertical:
      return CheckFlip(op.random_flip_vertical(), where);
    case v1::Op::kColorJitter:
      return CheckJitter(op.color_jitter(), where);
    case v1::Op::kRandomGrayscale:
      return IsShare(op.random_grayscale().probability())
                 ? Status()
                 : Wrong(where + ".probability", "is 0 to 1");
    case v1::Op::kRandomBrightness:
      return IsShare(op.random_brightness().max_delta()) ? Status()
                                                         : Wrong(where + ".max_delta", "is 0 to 1");
    case v1::Op::kRandomContrast:
      return CheckFactors(op.random_contrast(), where);
    case v1::Op::kRandomSaturation:
      return CheckFactors(op.random_saturation(), where);
    case v1::Op::kRandomHue:
      return CheckWithin(op.random_hue().max_delta(), 0, 0.5f, where + ".max_delta", "is 0 to 0.5");
    case v1::Op::kRandomErasing:
      return CheckErasing(op.random_erasing(), where);
    case v1::Op::kCutout:
      return CheckCutout(op.cutout(), where);
    case v1::Op::OP_NOT_SET:
      break;
  }
  return Wrong(where, "names no operation");
}

// The name that the spec gives the operation: "resize".
std::string OpName(const v1::Op& op) {
  const auto* field = v1::Op::descriptor()->FindFieldByNumber(static_cast<int>(op.op_case()));
  return field == nullptr ? "" : " " + field->name();
}

}  // namespace

void FillOpDefaults(v1::Tensor* tensor) {
  const bool tf = tensor->has_image() && tensor->image().profile() == v1::Image::TF;
  for (auto& op : *tensor->mutable_op()) {
    switch (op.op_case()) {
      case v1::Op::kScale:
        if (!op.scale().has_factor()) op.mutable_scale()->set_factor(1.0f);
        break;
      case v1::Op::kNormalize:
        if (tensor->has_image() && !op.normalize().has_scale_to_unit()) {
          op.mutable_normalize()->set_scale_to_unit(true);
        }
        break;
      case v1::Op::kOneHot:
        if (!op.one_hot().has_on()) op.mutable_one_hot()->set_on(1.0f);
        if (!op.one_hot().has_off()) op.mutable_one_hot()->set_off(0.0f);
        break;
      case v1::Op::kResize:
        FillAntialias(op.mutable_resize(), !tf);
        break;
      case v1::Op::kResizeShorter:
        FillAntialias(op.mutable_resize_shorter(), !tf);
        break;
      case v1::Op::kRandomResizedCrop:
        FillCrop(op.mutable_random_resized_crop(), tf);
        break;
      case v1::Op::kRandomFlipHorizontal:
        FillFlip(op.mutable_random_flip_horizontal());
        break;
      case v1::Op::kRandomFlipVertical:
        FillFlip(op.mutable_random_flip_vertical());
        break;
      case v1::Op::kRandomGrayscale:
        if (!op.random_grayscale().has_probability()) {
          op.mutable_random_grayscale()->set_probability(0.1f);
        }
        break;
      case v1::Op::kRandomErasing:
        FillErasing(op.mutable_random_erasing());
        break;
      default:
        break;
    }
  }
}

Status CheckOps(const v1::Tensor& tensor, const std::string& where) {
  for (int i = 0; i < tensor.op_size(); ++i) {
    STOKER_TRY(
        CheckOp(tensor.op(i), where + ": op[" + std::to_string(i) + "]" + OpName(tensor.op(i))));
  }
  return Status();
}

}  // namespace stoker::config
