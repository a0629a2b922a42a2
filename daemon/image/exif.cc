#include "daemon/image/exif.h"

#include <cstdint>
#include <cstring>

namespace stoker::image {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;  // a TIFF field of 16 bits

// Numbers of a TIFF structure, in the byte order that it names; past its end they are absent.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ReadOrder() {
    if (bytes_.size() < 8) return false;
    const bool intel = std::memcmp(bytes_.data(), "II*\0", 4) == 0;
    big_ = std::memcmp(bytes_.data(), "MM\0*", 4) == 0;
    return intel || big_;
  }
  bool Read(std::size_t at, int bytes, std::uint32_t* value) const {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<std::size_t>(bytes)) return false;
    *value = 0;
    for (int i = 0; i < bytes; ++i) {
      const auto byte = static_cast<std::uint32_t>(bytes_[at + static_cast<std::size_t>(i)]);
      *value |= byte << (8 * (big_ ? bytes - 1 - i : i));
    }
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_ = false;
};

// 1 to 8; 0 where the structure is broken.
int OrientationOf(std::span<const std::byte> bytes) {
  Tiff tiff(bytes);
  std::uint32_t at = 0;
  std::uint32_t entries = 0;
  if (!tiff.ReadOrder() || !tiff.Read(4, 4, &at) || !tiff.Read(at, 2, &entries)) return 0;
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = std::size_t{at} + 2 + std::size_t{i} * 12;
    std::uint32_t tag = 0;
    std::uint32_t type = 0;
    std::uint32_t value = 0;
    if (!tiff.Read(entry, 2, &tag) || !tiff.Read(entry + 2, 2, &type) ||
        !tiff.Read(entry + 8, 2, &value)) {
      return 0;
    }
    if (tag != kOrientationTag) continue;
    return type == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 1;
}

int Judged(int orientation, bool* bad) {
  *bad = orientation == 0;
  return orientation == 0 ? 1 : orientation;
}

}  // namespace

int JpegOrientation(std::span<const std::byte> jpeg, bool* bad) {
  const auto byte = [jpeg](std::size_t i) { return static_cast<std::uint8_t>(jpeg[i]); };
  std::size_t at = 2;
  while (at + 4 <= jpeg.size()) {
    if (byte(at) != 0xff) {  // junk between segments
      ++at;
      continue;
    }
    const std::uint8_t marker = byte(at + 1);
    if (marker == 0xff || marker == 0 || (marker >= 0xd0 && marker <= 0xd8) || marker == 1) {
      at += marker == 0xff ? 1 : 2;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) return 1;  // pixels begin, or the end
    const std::size_t length = std::size_t{byte(at + 2)} << 8 | byte(at + 3);
    if (length < 2 || at + 2 + length > jpeg.size()) return 1;
    const auto segment = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && segment.size() >= 6 && std::memcmp(segment.data(), "Exif\0\0", 6) == 0) {
      return Judged(OrientationOf(segment.subspan(6)), bad);
    }
    at += 2 + length;
  }
  return 1;
}

int PngOrientation(std::span<const std::byte> png, bool* bad) {
  constexpr std::size_t kAround = 12;  // length and type before a chunk's data, checksum behind
  std::size_t at = 8;
  while (at + kAround <= png.size()) {
    std::uint32_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<std::uint32_t>(png[at + i]);
    }
    const auto is = [&](const char* type) { return std::memcmp(&png[at + 4], type, 4) == 0; };
    if (length > png.size() - at - kAround || is("IDAT") || is("IEND")) return 1;
    if (is("eXIf")) return Judged(OrientationOf(png.subspan(at + 8, length)), bad);
    at += kAround + length;
  }
  return 1;
}

}  // namespace stoker::image
