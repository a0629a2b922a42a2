// TFRecord framing, version-less and little-endian:
//   u64 length | u32 mask(crc32c(length)) | u8 payload[length] | u32 mask(crc32c(payload))
// docs/formats/tfrecord.md is the full description; a change here changes it too.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/base/crc32c.h"

namespace stoker::io {

static_assert(std::endian::native == std::endian::little, "Stoker runs on little-endian hosts");

inline constexpr std::uint64_t kHeaderBytes = 12;
inline constexpr std::uint64_t kFooterBytes = 4;
inline constexpr std::uint64_t kFramingBytes = kHeaderBytes + kFooterBytes;

template <typename T>
T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

struct RecordHeader {
  std::uint64_t length;
  bool crc_good;
};

// `header` has kHeaderBytes bytes.
inline RecordHeader ParseHeader(const std::byte* header) {
  const auto length = LoadLittle<std::uint64_t>(header);
  return {length, MaskCrc(Crc32cOfU64(length)) == LoadLittle<std::uint32_t>(header + 8)};
}

}  // namespace stoker::io
