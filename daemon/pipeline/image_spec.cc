#include "daemon/pipeline/image_spec.h"

#include <string>

namespace stoker::pipeline {
namespace {

using image::OpSpec;
using Type = image::OpSpec::Type;

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

image::Method ToMethod(v1::Method method) {
  switch (method) {
    case v1::NEAREST:
      return image::Method::kNearest;
    case v1::NEAREST_FLOOR:
      return image::Method::kNearestFloor;
    case v1::BICUBIC:
      return image::Method::kBicubic;
    case v1::LANCZOS3:
      return image::Method::kLanczos3;
    case v1::AREA:
      return image::Method::kArea;
    default:
      return image::Method::kBilinear;
  }
}

// Fields that resize, resize_shorter and random_resized_crop share.
template <typename Message>
void TakeKernel(const Message& message, image::Profile profile, OpSpec* op) {
  op->method = ToMethod(message.method());
  op->antialias =
      message.has_antialias() ? message.antialias() : profile == image::Profile::kTorchvision;
}

template <typename Message>
void TakeSize(const Message& message, OpSpec* op) {
  op->height = message.height();
  op->width = message.width();
}

Status TakeCrop(const v1::RandomResizedCrop& crop, image::Profile profile, const std::string& where,
                OpSpec* op) {
  op->type = Type::kRandomResizedCrop;
  TakeSize(crop, op);
  TakeKernel(crop, profile, op);
  const bool tf_rule =
      crop.rule() == v1::RandomResizedCrop::RULE_TF ||
      (crop.rule() == v1::RandomResizedCrop::RULE_DEFAULT && profile == image::Profile::kTf);
  if (tf_rule) op->rule = image::CropRule::kTf;
  if (crop.scale_size() != 0 && crop.scale_size() != 2)
    return Wrong(where + ".scale", "takes two values");
  if (crop.ratio_size() != 0 && crop.ratio_size() != 2)
    return Wrong(where + ".ratio", "takes two values");
  if (crop.scale_size() == 2) {
    op->crop.scale_min = crop.scale(0);
    op->crop.scale_max = crop.scale(1);
  }
  if (crop.ratio_size() == 2) {
    op->crop.ratio_min = crop.ratio(0);
    op->crop.ratio_max = crop.ratio(1);
  }
  if (crop.has_min_object_covered()) op->crop.min_object_covered = crop.min_object_covered();
  if (crop.has_max_attempts()) op->crop.max_attempts = crop.max_attempts();
  return Status();
}

Status TakeErasing(const v1::RandomErasing& erasing, const std::string& where, OpSpec* op) {
  op->type = Type::kErase;
  op->probability = erasing.has_probability() ? erasing.probability() : 0.5f;
  op->value = erasing.value();
  if (erasing.scale_size() != 0 && erasing.scale_size() != 2)
    return Wrong(where + ".scale", "takes two values");
  if (erasing.ratio_size() != 0 && erasing.ratio_size() != 2)
    return Wrong(where + ".ratio", "takes two values");
  op->crop.scale_min = erasing.scale_size() == 2 ? erasing.scale(0) : 0.02f;
  op->crop.scale_max = erasing.scale_size() == 2 ? erasing.scale(1) : 0.33f;
  op->crop.ratio_min = erasing.ratio_size() == 2 ? erasing.ratio(0) : 0.3f;
  op->crop.ratio_max = erasing.ratio_size() == 2 ? erasing.ratio(1) : 3.3f;
  return Status();
}

void TakeJitter(const v1::ColorJitter& jitter, OpSpec* op) {
  op->type = Type::kColorJitter;
  op->brightness = jitter.brightness();
  op->contrast = jitter.contrast();
  op->saturation = jitter.saturation();
  op->hue = jitter.hue();
}

// What one of TensorFlow's random adjustments draws from.
void TakeDraw(Type type, float lower, float upper, OpSpec* op) {
  op->type = type;
  op->lower = lower;
  op->upper = upper;
}

Status TakeOp(const v1::Op& from, const std::string& where, v1::DType dtype, image::Profile profile,
              std::uint16_t number, std::vector<OpSpec>* ops) {
  OpSpec op;
  op.number = number;
  switch (from.op_case()) {
    case v1::Op::kResize:
      op.type = Type::kResize;
      TakeSize(from.resize(), &op);
      TakeKernel(from.resize(), profile, &op);
      break;
    case v1::Op::kResizeShorter:
      op.type = Type::kResizeShorter;
      op.height = from.resize_shorter().size();
      TakeKernel(from.resize_shorter(), profile, &op);
      break;
    case v1::Op::kCenterCrop:
      op.type = Type::kCenterCrop;
      TakeSize(from.center_crop(), &op);
      break;
    case v1::Op::kRandomCrop:
      op.type = Type::kRandomCrop;
      TakeSize(from.random_crop(), &op);
      op.padding = from.random_crop().padding();
      if (op.padding > 65536) return Wrong(where + ".padding", "is at most 65536");
      break;
    case v1::Op::kRandomResizedCrop:
      STOKER_TRY(TakeCrop(from.random_resized_crop(), profile, where, &op));
      break;
    case v1::Op::kRandomFlipHorizontal:
    case v1::Op::kRandomFlipVertical: {
      const bool horizontal = from.op_case() == v1::Op::kRandomFlipHorizontal;
      const auto& flip = horizontal ? from.random_flip_horizontal() : from.random_flip_vertical();
      op.type = horizontal ? Type::kFlipHorizontal : Type::kFlipVertical;
      if (flip.has_probability()) op.probability = flip.probability();
      break;
    }
    case v1::Op::kColorJitter:
      TakeJitter(from.color_jitter(), &op);
      break;
    case v1::Op::kRandomGrayscale:
      op.type = Type::kGrayscale;
      op.probability =
          from.random_grayscale().has_probability() ? from.random_grayscale().probability() : 0.1f;
      break;
    case v1::Op::kRandomBrightness:
      TakeDraw(Type::kTfBrightness, -from.random_brightness().max_delta(),
               from.random_brightness().max_delta(), &op);
      break;
    case v1::Op::kRandomContrast:
      TakeDraw(Type::kTfContrast, from.random_contrast().lower(), from.random_contrast().upper(),
               &op);
      break;
    case v1::Op::kRandomSaturation:
      TakeDraw(Type::kTfSaturation, from.random_saturation().lower(),
               from.random_saturation().upper(), &op);
      break;
    case v1::Op::kRandomHue:
      TakeDraw(Type::kTfHue, -from.random_hue().max_delta(), from.random_hue().max_delta(), &op);
      break;
    case v1::Op::kRandomErasing:
      STOKER_TRY(TakeErasing(from.random_erasing(), where, &op));
      break;
    case v1::Op::kCutout:
      op.type = Type::kCutout;
      op.height = from.cutout().size();
      op.value = from.cutout().value();
      break;
    case v1::Op::kScale:
      op.type = Type::kScale;
      op.factor = from.scale().has_factor() ? from.scale().factor() : 1.0f;
      op.offset = from.scale().offset();
      break;
    case v1::Op::kNormalize:
      op.type = Type::kNormalize;
      op.mean.assign(from.normalize().mean().begin(), from.normalize().mean().end());
      op.std.assign(from.normalize().std().begin(), from.normalize().std().end());
      op.scale_to_unit = !from.normalize().has_scale_to_unit() || from.normalize().scale_to_unit();
      break;
    case v1::Op::kCast:
      // The tensor's dtype is what is written; a cast can only repeat it.
      if (from.cast().dtype() != dtype) {
        return Wrong(where,
                     "an image is delivered as its tensor's dtype, " + v1::DType_Name(dtype));
      }
      return Status();
    default:
      return Wrong(where, "is not an operation on images");
  }
  ops->push_back(std::move(op));
  return Status();
}

}  // namespace

Result<image::ImageSpec> ToImageSpec(const v1::Tensor& tensor, std::uint16_t first_op) {
  const v1::Image& from = tensor.image();
  const std::string where = "tensor \"" + tensor.name() + "\"";
  image::ImageSpec spec;
  spec.profile =
      from.profile() == v1::Image::TF ? image::Profile::kTf : image::Profile::kTorchvision;
  spec.decode.channels = from.channels();
  spec.decode.fast_dct = from.dct() == v1::Image::FAST;
  spec.decode.orient = from.orientation() == v1::Image::APPLY;
  spec.decode.tolerant = from.tolerant();
  spec.decode.deep = tensor.dtype() == v1::UINT16;
  spec.decode.max_pixels = from.max_pixels();
  spec.decode.max_scans = from.max_scans();
  spec.decode.max_decoded_bytes = from.max_decoded_bytes();
  spec.layout = tensor.layout() == v1::NCHW ? image::Layout::kNchw : image::Layout::kNhwc;
  switch (tensor.dtype()) {
    case v1::FLOAT32:
      spec.out = image::OutType::kFloat32;
      break;
    case v1::FLOAT16:
      spec.out = image::OutType::kFloat16;
      break;
    case v1::BFLOAT16:
      spec.out = image::OutType::kBfloat16;
      break;
    case v1::UINT16:
      spec.out = image::OutType::kUint16;
      break;
    default:
      spec.out = image::OutType::kUint8;
      break;
  }
  for (int i = 0; i < tensor.op_size(); ++i) {
    STOKER_TRY(TakeOp(tensor.op(i), where + ": op[" + std::to_string(i) + "]", tensor.dtype(),
                      spec.profile, static_cast<std::uint16_t>(first_op + i), &spec.ops));
  }
  return spec;
}

}  // namespace stoker::pipeline
