#include "client/cli/sheet.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/base/half.h"

namespace stoker::cli {
namespace {

constexpr std::uint32_t kGap = 6;
constexpr std::uint32_t kCaption = 14;
constexpr std::uint32_t kColumns = 8;
constexpr std::uint32_t kScale = 2;  // of a 3 x 5 digit

// Digits and minus, three columns of five bits each, top bit first.
constexpr std::array<std::array<std::uint8_t, 3>, 11> kDigits = {{
    {31, 17, 31},
    {0, 31, 0},
    {23, 21, 29},
    {21, 21, 31},
    {28, 4, 31},
    {29, 21, 23},
    {31, 21, 23},
    {16, 16, 31},
    {31, 21, 31},
    {29, 21, 31},
    {4, 4, 4},
}};

struct Canvas {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::uint8_t> rgb;

  void Set(std::uint32_t y, std::uint32_t x, std::uint32_t c, std::uint8_t value) {
    rgb[(std::size_t{y} * width + x) * 3 + c] = value;
  }
};

void DrawNumber(Canvas* canvas, std::uint32_t y, std::uint32_t x, std::int64_t number) {
  for (const char c : std::to_string(number)) {
    const auto& glyph = kDigits[c == '-' ? 10 : static_cast<std::size_t>(c - '0')];
    for (std::uint32_t column = 0; column < 3 * kScale; ++column) {
      for (std::uint32_t row = 0; row < 5 * kScale; ++row) {
        const bool ink = (glyph[column / kScale] >> (4 - row / kScale) & 1) != 0;
        if (!ink || x + column >= canvas->width) continue;
        for (std::uint32_t k = 0; k < 3; ++k) canvas->Set(y + row, x + column, k, 20);
      }
    }
    x += 4 * kScale;
  }
}

float ValueAt(const stoker_tensor& tensor, std::size_t i) {
  const auto* data = static_cast<const std::byte*>(tensor.data);
  if (tensor.dtype_bits == 8) return static_cast<float>(data[i]);
  if (tensor.dtype_bits == 32) {
    float value;
    std::memcpy(&value, data + 4 * i, sizeof(value));
    return value;
  }
  std::uint16_t value;
  std::memcpy(&value, data + 2 * i, sizeof(value));
  return tensor.dtype_code == 4 ? FromBfloat16(value) : FromFloat16(value);
}

bool LooksLikeImages(const stoker_tensor& tensor) {
  if (tensor.role != STOKER_ROLE_DENSE || tensor.ndim != 4) return false;
  const bool last = tensor.shape[3] == 1 || tensor.shape[3] == 3;
  const bool first = tensor.shape[1] == 1 || tensor.shape[1] == 3;
  const bool number = (tensor.dtype_code == 1 && tensor.dtype_bits == 8) ||
                      tensor.dtype_code == 2 || tensor.dtype_code == 4;
  return (last || first) && number && tensor.dtype_bits <= 32;
}

Status WritePng(const Canvas& canvas, const std::string& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = canvas.width;
  image.height = canvas.height;
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path.c_str(), 0, canvas.rgb.data(), 0, nullptr) != 0) {
    return Status();
  }
  return Status(Code::kResourceExhausted, path + ": " + image.message);
}

}  // namespace

Status WriteSheet(const BatchTensors& tensors, std::uint32_t rows, const std::string& path) {
  const stoker_tensor* images = nullptr;
  const std::int64_t* labels = nullptr;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const stoker_tensor& tensor = tensors.tensor(i);
    if (images == nullptr && LooksLikeImages(tensor)) images = &tensor;
    if (labels == nullptr && tensor.ndim == 1 && tensor.dtype_code == 0 &&
        tensor.dtype_bits == 64 && tensor.role == STOKER_ROLE_DENSE) {
      labels = static_cast<const std::int64_t*>(tensor.data);
    }
  }
  if (images == nullptr) {
    return Status(Code::kFailedPrecondition, "no tensor of the batch looks like images");
  }
  const bool planes = images->shape[3] != 1 && images->shape[3] != 3;
  const auto channels = static_cast<std::uint32_t>(images->shape[planes ? 1 : 3]);
  const auto height = static_cast<std::uint32_t>(images->shape[planes ? 2 : 1]);
  const auto width = static_cast<std::uint32_t>(images->shape[planes ? 3 : 2]);
  const auto count = std::min(rows, static_cast<std::uint32_t>(images->shape[0]));
  if (count == 0) return Status(Code::kFailedPrecondition, "the batch has no rows");
  const std::size_t plane = std::size_t{height} * width;
  const std::size_t per_image = plane * channels;

  float least = ValueAt(*images, 0);
  float most = least;
  for (std::size_t i = 0; i < per_image * count; ++i) {
    least = std::min(least, ValueAt(*images, i));
    most = std::max(most, ValueAt(*images, i));
  }
  if (images->dtype_bits == 8) {
    least = 0;
    most = 255;
  }
  const float stretch = most > least ? 255.0f / (most - least) : 0.0f;

  Canvas canvas;
  const std::uint32_t columns = std::min(count, kColumns);
  const std::uint32_t lines = (count + columns - 1) / columns;
  canvas.width = kGap + columns * (width + kGap);
  canvas.height = kGap + lines * (height + kCaption + kGap);
  canvas.rgb.assign(std::size_t{canvas.height} * canvas.width * 3, 245);
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t top = kGap + n / columns * (height + kCaption + kGap);
    const std::uint32_t left = kGap + n % columns * (width + kGap);
    for (std::size_t p = 0; p < plane; ++p) {
      for (std::uint32_t c = 0; c < 3; ++c) {
        const std::uint32_t from = std::min(c, channels - 1);
        const std::size_t at = n * per_image + (planes ? from * plane + p : p * channels + from);
        canvas.Set(top + static_cast<std::uint32_t>(p / width),
                   left + static_cast<std::uint32_t>(p % width), c,
                   static_cast<std::uint8_t>((ValueAt(*images, at) - least) * stretch));
      }
    }
    if (labels != nullptr) DrawNumber(&canvas, top + height + 2, left, labels[n]);
  }
  return WritePng(canvas, path);
}

}  // namespace stoker::cli
