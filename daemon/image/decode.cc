#include "daemon/image/decode.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/image/exif.h"
#include "daemon/image/jpeg.h"
#include "daemon/image/png.h"

namespace stoker::image {
namespace {

// A buffer above this is given back after its image.
constexpr std::size_t kKeptBytes = std::size_t{64} << 20;

// What each Exif orientation asks of the stored image: first transposed, then mirrored.
struct Turn {
  bool transpose;
  bool mirror_x;
  bool mirror_y;
};
constexpr Turn kTurns[9] = {{},
                            {false, false, false},
                            {false, true, false},
                            {false, true, true},
                            {false, false, true},
                            {true, false, false},
                            {true, true, false},
                            {true, true, true},
                            {true, false, true}};

// The stored window that a window of the turned image shows. `height` and `width` are turned.
Window Stored(const Turn& turn, Window window, std::uint32_t height, std::uint32_t width) {
  if (turn.mirror_x) window.x = width - window.x - window.w;
  if (turn.mirror_y) window.y = height - window.y - window.h;
  if (turn.transpose) {
    std::swap(window.x, window.y);
    std::swap(window.w, window.h);
  }
  return window;
}

void TurnPixels(const Turn& turn, const View& from, Pixels* to) {
  to->Resize(turn.transpose ? from.width : from.height, turn.transpose ? from.height : from.width);
  for (std::uint32_t y = 0; y < to->height(); ++y) {
    const std::uint32_t ty = turn.mirror_y ? to->height() - 1 - y : y;
    for (std::uint32_t x = 0; x < to->width(); ++x) {
      const std::uint32_t tx = turn.mirror_x ? to->width() - 1 - x : x;
      const std::size_t row = turn.transpose ? tx : ty;
      const std::size_t column = turn.transpose ? ty : tx;
      std::memcpy(to->row(y) + x * kStep, from.bytes + row * from.stride + column * kStep, kStep);
    }
  }
}

}  // namespace

const char* FormatName(std::span<const std::byte> bytes) {
  const auto begins = [bytes](std::string_view text, std::size_t at = 0) {
    return bytes.size() >= at + text.size() &&
           std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
  };
  if (begins("\xff\xd8\xff")) return "JPEG";
  if (begins("\x89PNG\r\n\x1a\n")) return "PNG";
  if (begins("GIF8")) return "GIF";
  if (begins("BM")) return "BMP";
  if (begins("RIFF") && begins("WEBP", 8)) return "WebP";
  if (begins(std::string_view("II*\0", 4)) || begins(std::string_view("MM\0*", 4))) return "TIFF";
  if (begins(std::string_view("\0\0\0\x0cjP  ", 8)) || begins("\xff\x4f\xff\x51"))
    return "JPEG 2000";
  return "an unknown format";
}

struct Decoder::Parts {
  JpegDecoder jpeg;
  PngDecoder png;
  Pixels pixels;
  Pixels turned;
  std::vector<float> deep;
  bool is_png = false;
  int orientation = 1;
};

Decoder::Decoder() : parts_(std::make_unique<Parts>()) {}
Decoder::~Decoder() = default;

std::uint32_t Decoder::height() const { return height_; }
std::uint32_t Decoder::width() const { return width_; }

FaultClass Decoder::Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                         ImageCounters* counters, std::string* detail) {
  Close(counters);
  const std::string_view format = FormatName(bytes);
  Parts& parts = *parts_;
  parts.orientation = 1;
  parts.is_png = format == "PNG";
  if (!parts.is_png && format != "JPEG") {
    *detail = "it is " + std::string(format) + "; JPEG and PNG are decoded";
    return FaultClass::kUnsupportedImageFormat;
  }
  if (parts.is_png) {
    const FaultClass fault = parts.png.Open(bytes, options, counters, detail);
    height_ = parts.png.height();
    width_ = parts.png.width();
    return fault;
  }
  const FaultClass fault = parts.jpeg.Open(bytes, options, counters, detail);
  if (fault != FaultClass::kNone) return fault;
  height_ = parts.jpeg.height();
  width_ = parts.jpeg.width();
  if (options.orient) {
    bool bad = false;
    parts.orientation = ExifOrientation(bytes, &bad);
    counters->jpeg_warnings += bad ? 1 : 0;
    if (kTurns[parts.orientation].transpose) std::swap(height_, width_);
  }
  deep_ = options.deep;
  return FaultClass::kNone;
}

FaultClass Decoder::Read(const Window& window, View* view, std::string* detail) {
  Parts& parts = *parts_;
  if (parts.is_png) return parts.png.Read(window, &parts.pixels, &parts.deep, view, detail);
  const Turn& turn = kTurns[parts.orientation];
  const FaultClass fault =
      parts.jpeg.Read(Stored(turn, window, height_, width_), &parts.pixels, view, detail);
  if (fault != FaultClass::kNone) return fault;
  if (parts.orientation != 1) {
    TurnPixels(turn, *view, &parts.turned);
    *view = parts.turned.view();
  }
  if (deep_) Deepen(view);
  return FaultClass::kNone;
}

// 8 bits as 16 are times 257.
void Decoder::Deepen(View* view) {
  const std::size_t stride = view->width * kStep;
  auto& deep = parts_->deep;
  if (deep.size() < stride * view->height + 3 * kStep) {
    deep.resize(stride * view->height + 3 * kStep);
  }
  for (std::size_t y = 0; y < view->height; ++y) {
    for (std::size_t i = 0; i < stride; ++i) {
      deep[y * stride + i] = static_cast<float>(view->bytes[y * view->stride + i] * 257);
    }
  }
  *view = {nullptr, deep.data(), stride, view->height, view->width};
}

void Decoder::Close(ImageCounters* counters) {
  parts_->jpeg.Close(counters);
  parts_->png.Close(counters);
}

void Decoder::Trim() {
  parts_->pixels.Trim(kKeptBytes);
  parts_->turned.Trim(kKeptBytes);
  if (parts_->deep.size() * sizeof(float) > kKeptBytes) std::vector<float>().swap(parts_->deep);
}

}  // namespace stoker::image
