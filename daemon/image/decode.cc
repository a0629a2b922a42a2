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

// Whole pixels of `from` as the turned image shows them, each of `bytes` bytes.
void TurnPixels(const Turn& turn, const View& from, std::size_t bytes, std::uint8_t* to,
                std::size_t to_stride) {
  const auto* source =
      from.bytes != nullptr ? from.bytes : reinterpret_cast<const std::uint8_t*>(from.floats);
  const std::size_t from_stride = from.stride * (from.bytes != nullptr ? 1 : sizeof(float));
  const std::uint32_t height = turn.transpose ? from.width : from.height;
  const std::uint32_t width = turn.transpose ? from.height : from.width;
  for (std::uint32_t y = 0; y < height; ++y) {
    const std::size_t ty = turn.mirror_y ? height - 1 - y : y;
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::size_t tx = turn.mirror_x ? width - 1 - x : x;
      const std::size_t row = turn.transpose ? tx : ty;
      const std::size_t column = turn.transpose ? ty : tx;
      std::memcpy(to + y * to_stride + x * bytes, source + row * from_stride + column * bytes,
                  bytes);
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
  std::vector<float> turned_deep;
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
  const FaultClass fault = parts.is_png ? parts.png.Open(bytes, options, counters, detail)
                                        : parts.jpeg.Open(bytes, options, counters, detail);
  if (fault != FaultClass::kNone) return fault;
  height_ = parts.is_png ? parts.png.height() : parts.jpeg.height();
  width_ = parts.is_png ? parts.png.width() : parts.jpeg.width();
  deepen_ = options.deep && !parts.is_png;
  if (options.orient) {
    bool bad = false;
    parts.orientation = parts.is_png ? PngOrientation(bytes, &bad) : JpegOrientation(bytes, &bad);
    if (bad) ++(parts.is_png ? counters->png_warnings : counters->jpeg_warnings);
    if (kTurns[parts.orientation].transpose) std::swap(height_, width_);
  }
  return FaultClass::kNone;
}

FaultClass Decoder::Read(const Window& window, View* view, std::string* detail) {
  Parts& parts = *parts_;
  const Window stored = Stored(kTurns[parts.orientation], window, height_, width_);
  const FaultClass fault = parts.is_png
                               ? parts.png.Read(stored, &parts.pixels, &parts.deep, view, detail)
                               : parts.jpeg.Read(stored, &parts.pixels, view, detail);
  if (fault != FaultClass::kNone) return fault;
  if (parts.orientation != 1) Turned(window, view);
  if (deepen_) Deepen(view);
  return FaultClass::kNone;
}

void Decoder::Turned(const Window& window, View* view) {
  Parts& parts = *parts_;
  const Turn& turn = kTurns[parts.orientation];
  if (view->bytes != nullptr) {
    parts.turned.Resize(window.h, window.w);
    const View to = parts.turned.view();
    TurnPixels(turn, *view, kStep, parts.turned.row(0), to.stride);
    *view = to;
    return;
  }
  const std::size_t stride = window.w * kStep;
  const std::size_t items = stride * window.h + 3 * kStep;
  if (parts.turned_deep.size() < items) parts.turned_deep.resize(items);
  TurnPixels(turn, *view, kStep * sizeof(float),
             reinterpret_cast<std::uint8_t*>(parts.turned_deep.data()), stride * sizeof(float));
  *view = {nullptr, parts.turned_deep.data(), stride, window.h, window.w};
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
  for (auto* deep : {&parts_->deep, &parts_->turned_deep}) {
    if (deep->size() * sizeof(float) > kKeptBytes) std::vector<float>().swap(*deep);
  }
}

}  // namespace stoker::image
