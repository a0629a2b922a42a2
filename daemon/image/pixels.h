// Pixels: what decoders write and resampling reads. Every pixel takes four items, red, green, blue
// and one that nobody reads, so that a register holds whole pixels; gray repeats its value.
//
// Ownership: Pixels owns its rows and keeps them between images; a View borrows. Thread-safety:
// plain values. Errors: Resize() throws std::bad_alloc, which the row's run turns into a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace stoker::image {

inline constexpr std::size_t kStep = 4;  // items of a pixel

struct Window {
  std::uint32_t y = 0;
  std::uint32_t x = 0;
  std::uint32_t h = 0;
  std::uint32_t w = 0;
};

// A rectangle of an image in memory, uint8 or float32. Up to three pixels behind a row's last may
// be read, and are not used.
struct View {
  const std::uint8_t* bytes = nullptr;  // one of the two
  const float* floats = nullptr;
  std::size_t stride = 0;  // items from one row to the next
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  View Crop(const Window& window) const {
    View view = *this;
    const std::size_t skip = window.y * stride + window.x * kStep;
    if (bytes != nullptr) view.bytes = bytes + skip;
    if (floats != nullptr) view.floats = floats + skip;
    view.height = window.h;
    view.width = window.w;
    return view;
  }
};

// A row of one item a pixel to four, from its end so that nothing is overwritten unread.
inline void Spread(std::uint8_t* row, std::uint32_t width) {
  for (std::size_t x = width; x-- > 0;) std::memset(row + x * kStep, row[x], kStep);
}

class Pixels {
 public:
  void Resize(std::uint32_t height, std::uint32_t width) {
    height_ = height;
    width_ = width;
    stride_ = (width * kStep + kBehind + 31) / 32 * 32;
    const std::size_t bytes = stride_ * height + 64;
    if (data_.size() < bytes) data_.resize(bytes);
    // libjpeg-turbo writes rows that begin at a multiple of 32 past the caches, which the
    // resampling that follows would wait for.
    const auto at = reinterpret_cast<std::uintptr_t>(data_.data()) % 32;
    start_ = (32 - at) % 32 + 8;
  }
  // Gives memory above `bytes` back: one huge image does not stay for ever.
  void Trim(std::size_t bytes) {
    if (data_.size() > bytes) std::vector<std::uint8_t>().swap(data_);
  }

  std::uint32_t height() const { return height_; }
  std::uint32_t width() const { return width_; }
  std::uint8_t* row(std::uint32_t y) { return data_.data() + start_ + y * stride_; }
  const std::uint8_t* row(std::uint32_t y) const { return data_.data() + start_ + y * stride_; }
  View view() const { return {row(0), nullptr, stride_, height_, width_}; }

 private:
  static constexpr std::size_t kBehind = 3 * kStep;

  std::uint32_t height_ = 0;
  std::uint32_t width_ = 0;
  std::size_t stride_ = 0;
  std::size_t start_ = 8;
  std::vector<std::uint8_t> data_ = std::vector<std::uint8_t>(64);
};

}  // namespace stoker::image
