// CRC32C (Castagnoli) over bytes, and TFRecord's mask over it.
//
// ISA-L computes it with the fastest instructions of the CPU and has a plain-C base for others.
// Mask: ((crc >> 15) | (crc << 17)) + 0xa282ead8 modulo 2^32 (TFRecord's own definition).
#pragma once

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

inline std::uint32_t Crc32c(std::span<const std::byte> bytes) {
  // ISA-L takes a non-const pointer and an int length, and does not write; records may be longer.
  constexpr std::size_t kChunk = std::size_t{1} << 30;
  std::uint32_t crc = 0xffffffffu;
  auto* p = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  std::size_t left = bytes.size();
  while (left > 0) {
    const std::size_t n = left < kChunk ? left : kChunk;
    crc = crc32_iscsi(p, static_cast<int>(n), crc);
    p += n;
    left -= n;
  }
  return ~crc;
}

inline std::uint32_t MaskCrc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace stoker
