#include "daemon/image/image_run.h"

#include <algorithm>

namespace stoker::image {
namespace {

using Type = OpSpec::Type;

// A long, thin image grows without measure when its shorter side is brought to size, so a step's
// result is bounded like a decoded image. Places in a row stay exact in float32 below 2^24.
constexpr std::uint64_t kLargestStepSide = std::uint64_t{1} << 24;
constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 30;

constexpr std::size_t kBehind = 3 * kStep;  // items that may be read behind a view's last

std::string Size(std::uint64_t height, std::uint64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

float* Grow(std::vector<float>* buffer, std::uint32_t height, std::uint32_t width) {
  const std::size_t n = std::size_t{height} * width * kStep + kBehind;
  if (buffer->size() < n) buffer->resize(n);
  return buffer->data();
}

float Between(float from, float to, RowRandom* random) {
  return from + (to - from) * random->NextFloat();
}

// All that is drawn is drawn, so that leaving a part out changes no other.
void Jitter(const OpSpec& op, const Canvas& canvas, RowRandom* random) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) {
    std::swap(order[i], order[random->Below(static_cast<std::uint64_t>(i) + 1)]);
  }
  const auto factor = [random](float part) {
    return Between(std::max(0.0f, 1.0f - part), 1.0f + part, random);
  };
  const float brightness = factor(op.brightness);
  const float contrast = factor(op.contrast);
  const float saturation = factor(op.saturation);
  const float hue = Between(-op.hue, op.hue, random);
  for (const int part : order) {
    if (part == 0 && op.brightness > 0.0f)
      AdjustBrightness(canvas, static_cast<double>(brightness));
    if (part == 1 && op.contrast > 0.0f) AdjustContrast(canvas, static_cast<double>(contrast));
    if (part == 2 && op.saturation > 0.0f)
      AdjustSaturation(canvas, static_cast<double>(saturation));
    if (part == 3 && op.hue > 0.0f) AdjustHue(canvas, hue);
  }
}

// A square around any pixel, cut at the image's sides.
Window DrawCutout(std::uint32_t size, const Canvas& canvas, RowRandom* random) {
  const auto side = [&](std::uint32_t length, std::uint32_t* at, std::uint32_t* cut) {
    const auto centre = static_cast<std::int64_t>(random->Below(length));
    const std::int64_t begin = std::max<std::int64_t>(0, centre - size / 2);
    const std::int64_t end = std::min<std::int64_t>(length, centre - size / 2 + size);
    *at = static_cast<std::uint32_t>(begin);
    *cut = static_cast<std::uint32_t>(end - begin);
  };
  Window window;
  side(canvas.height, &window.y, &window.h);
  side(canvas.width, &window.x, &window.w);
  return window;
}

}  // namespace

float ImageRun::round_to() const {
  return spec_.out == OutType::kUint8 ? 255.0f : spec_.out == OutType::kUint16 ? 65535.0f : 0.0f;
}

FaultClass ImageRun::Open(std::span<const std::byte> encoded, ImageCounters* counters) {
  const FaultClass fault = worker_.decoder_.Open(encoded, spec_.decode, counters, &detail_);
  if (fault == FaultClass::kNone) {
    source_ = {0, 0, worker_.decoder_.height(), worker_.decoder_.width()};
  }
  return fault;
}

FaultClass ImageRun::Apply(const OpSpec& op, RowRandom random) {
  switch (op.type) {
    case Type::kResize:
      return ResizeTo(op.height, op.width, op);
    case Type::kResizeShorter: {
      const std::uint64_t shorter = std::min(height(), width());
      return ResizeTo(LongerSide(op.height, shorter, height()),
                      LongerSide(op.height, shorter, width()), op);
    }
    case Type::kCenterCrop:
      return CropTo(op, "center_crop", nullptr);
    case Type::kRandomCrop: {
      const FaultClass fault = op.padding == 0 ? FaultClass::kNone : Pad(op.padding);
      return fault != FaultClass::kNone ? fault : CropTo(op, "random_crop", &random);
    }
    case Type::kRandomResizedCrop:
      Crop(op.rule == CropRule::kTf ? DrawTfCrop(op.crop, height(), width(), &random)
                                    : DrawTorchvisionCrop(op.crop, height(), width(), &random));
      return ResizeTo(op.height, op.width, op);
    case Type::kFlipHorizontal:
      mirror_x_ = mirror_x_ != (random.NextFloat() < op.probability);
      return FaultClass::kNone;
    case Type::kFlipVertical:
      mirror_y_ = mirror_y_ != (random.NextFloat() < op.probability);
      return FaultClass::kNone;
    case Type::kScale:
    case Type::kNormalize:
      return FaultClass::kNone;
    case Type::kGrayscale:
    case Type::kErase:
      if (!(random.NextFloat() < op.probability)) return FaultClass::kNone;
      break;
    default:
      break;
  }
  return Colour(op, &random);
}

FaultClass ImageRun::Write(const Affine& numbers, void* out) {
  Sink sink;
  sink.out = out;
  sink.type = spec_.out;
  sink.layout = spec_.layout;
  sink.channels = spec_.decode.channels;
  return Resolve(numbers, sink);
}

FaultClass ImageRun::CheckStep(std::uint64_t height, std::uint64_t width) {
  const std::uint64_t most = std::max(kStepBytes, spec_.decode.max_decoded_bytes);
  if (height <= kLargestStepSide && width <= kLargestStepSide &&
      height * width <= most / (spec_.decode.channels * sizeof(float))) {
    return FaultClass::kNone;
  }
  detail_ = "an op would make " + Size(height, width) + " pixels, over a side of " +
            std::to_string(kLargestStepSide) + " or " + std::to_string(most) + " bytes as float32";
  return FaultClass::kImageTooLarge;
}

// The centre, or without `random` nullptr any place.
FaultClass ImageRun::CropTo(const OpSpec& op, const char* name, RowRandom* random) {
  if (op.height > height() || op.width > width()) {
    detail_ = std::string(name) + " of " + Size(op.height, op.width) + " from an image of " +
              Size(height(), width());
    return FaultClass::kBadImage;
  }
  Window window = {CentreOffset(height(), op.height), CentreOffset(width(), op.width), op.height,
                   op.width};
  if (random != nullptr) {
    window.y = static_cast<std::uint32_t>(random->Below(height() - op.height + 1));
    window.x = static_cast<std::uint32_t>(random->Below(width() - op.width + 1));
  }
  Crop(window);
  return FaultClass::kNone;
}

FaultClass ImageRun::ResizeTo(std::uint64_t to_height, std::uint64_t to_width, const OpSpec& op) {
  if (to_height == height() && to_width == width()) return FaultClass::kNone;
  FaultClass fault = CheckStep(to_height, to_width);
  if (fault != FaultClass::kNone) return fault;
  // floor(x * in / out) is not the same seen from the other end, so a flip comes first there.
  const bool lopsided = op.method == Method::kNearestFloor && (mirror_x_ || mirror_y_);
  if (resized_ || lopsided) fault = Materialise();
  if (fault != FaultClass::kNone) return fault;
  resized_ = true;
  kernel_ = {op.method, op.antialias, spec_.profile};
  to_height_ = static_cast<std::uint32_t>(to_height);
  to_width_ = static_cast<std::uint32_t>(to_width);
  out_ = {0, 0, to_height_, to_width_};
  return FaultClass::kNone;
}

// Zeros around, in a copy: crops of padded images are small.
FaultClass ImageRun::Pad(std::uint32_t padding) {
  const std::uint64_t border = 2 * std::uint64_t{padding};
  FaultClass fault = CheckStep(height() + border, width() + border);
  if (fault == FaultClass::kNone) fault = Materialise();
  if (fault != FaultClass::kNone) return fault;
  const std::uint32_t padded_height = view_.height + 2 * padding;
  const std::uint32_t padded_width = view_.width + 2 * padding;
  float* to = Grow(&worker_.buffers_[buffer_], padded_height, padded_width);
  const std::size_t stride = padded_width * kStep;
  std::fill_n(to, stride * padded_height, 0.0f);
  for (std::size_t y = 0; y < view_.height; ++y) {
    std::copy_n(view_.floats + y * view_.stride, view_.width * kStep,
                to + (y + padding) * stride + padding * kStep);
  }
  view_ = {nullptr, to, stride, padded_height, padded_width};
  source_ = {0, 0, padded_height, padded_width};
  buffer_ ^= 1;
  return FaultClass::kNone;
}

FaultClass ImageRun::Colour(const OpSpec& op, RowRandom* random) {
  const FaultClass fault = Materialise();
  if (fault != FaultClass::kNone) return fault;
  Canvas canvas;
  canvas.pixels = worker_.buffers_[buffer_ ^ 1].data();
  canvas.height = view_.height;
  canvas.width = view_.width;
  canvas.channels = spec_.decode.channels;
  canvas.range = spec_.decode.deep ? 65535.0f : 255.0f;
  canvas.whole = round_to() > 0.0f;
  switch (op.type) {
    case Type::kColorJitter:
      Jitter(op, canvas, random);
      break;
    case Type::kGrayscale:
      MakeGray(canvas);
      break;
    case Type::kTfBrightness:
      AdjustTfBrightness(canvas, Between(op.lower, op.upper, random));
      break;
    case Type::kTfContrast:
      AdjustTfContrast(canvas, Between(op.lower, op.upper, random));
      break;
    case Type::kTfSaturation:
      AdjustTfSaturation(canvas, Between(op.lower, op.upper, random));
      break;
    case Type::kTfHue:
      AdjustTfHue(canvas, Between(op.lower, op.upper, random));
      break;
    case Type::kErase:
      Fill(canvas, DrawErased(op.crop, canvas.height, canvas.width, random), op.value);
      break;
    case Type::kCutout:
      Fill(canvas, DrawCutout(op.height, canvas, random), op.value);
      break;
    default:
      break;
  }
  return FaultClass::kNone;
}

// A crop of what will be mirrored is the mirrored place of what is there.
void ImageRun::Crop(Window window) {
  if (mirror_y_) window.y = height() - window.y - window.h;
  if (mirror_x_) window.x = width() - window.x - window.w;
  Window& seen = resized_ ? out_ : source_;
  seen = {seen.y + window.y, seen.x + window.x, window.h, window.w};
}

FaultClass ImageRun::Resolve(const Affine& numbers, const Sink& sink) {
  Taps& rows = worker_.rows_;
  Taps& columns = worker_.columns_;
  if (resized_) {
    MakeTaps(kernel_, source_.h, to_height_, out_.y, out_.h, &rows);
    MakeTaps(kernel_, source_.w, to_width_, out_.x, out_.w, &columns);
  } else {
    MakeIdentity(source_.h, &rows);
    MakeIdentity(source_.w, &columns);
  }
  if (mirror_y_) rows.Reverse();
  if (mirror_x_) columns.Reverse();
  const Window read = {source_.y + rows.begin(), source_.x + columns.begin(),
                       rows.end() - rows.begin(), columns.end() - columns.begin()};
  rows.Shift(rows.begin());
  columns.Shift(columns.begin());
  View view;
  if (decoded_) {
    view = view_.Crop(read);
  } else {
    const FaultClass fault = worker_.decoder_.Read(read, &view, &detail_);
    if (fault != FaultClass::kNone) return fault;
  }
  // torchvision's integer images are rounded between the passes, columns first; its bilinear is
  // within a level either way.
  const bool overshoots = kernel_.method == Method::kBicubic || kernel_.method == Method::kLanczos3;
  if (!resized_ || !overshoots || round_to() == 0.0f || kernel_.profile != Profile::kTorchvision) {
    worker_.resampler_.Run(view, rows, columns, numbers, sink);
    return FaultClass::kNone;
  }
  Sink between;
  between.out = Grow(&worker_.between_, view.height, columns.size());
  between.channels = kStep;
  between.round_to = round_to();
  MakeIdentity(view.height, &worker_.identity_);
  worker_.resampler_.Run(view, worker_.identity_, columns, Affine(), between);
  view = {nullptr, worker_.between_.data(), columns.size() * kStep, view.height, columns.size()};
  MakeIdentity(columns.size(), &worker_.identity_);
  worker_.resampler_.Run(view, rows, worker_.identity_, numbers, sink);
  return FaultClass::kNone;
}

FaultClass ImageRun::Materialise() {
  Sink sink;
  sink.out = Grow(&worker_.buffers_[buffer_], height(), width());
  sink.channels = kStep;
  sink.round_to = round_to();
  const FaultClass fault = Resolve(Affine(), sink);
  if (fault != FaultClass::kNone) return fault;
  view_ = {nullptr, worker_.buffers_[buffer_].data(), width() * kStep, height(), width()};
  source_ = {0, 0, view_.height, view_.width};
  buffer_ ^= 1;
  decoded_ = true;
  resized_ = mirror_x_ = mirror_y_ = false;
  return FaultClass::kNone;
}

}  // namespace stoker::image
