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

namespace crc32c_internal {

// kOfByte[i][b]: what byte b at place i of 8 contributes (CRC is linear over XOR).
struct Tables {
  std::uint32_t of_byte[8][256] = {};
  std::uint32_t of_zeros = 0;  // of eight zero bytes

  static constexpr std::uint32_t Step(std::uint32_t crc) {
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    return crc;
  }
  constexpr Tables() {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int place = 7; place >= 0; --place) {
        crc = Step(crc);
        of_byte[place][byte] = crc;
      }
    }
    std::uint32_t crc = 0xffffffffu;
    for (int i = 0; i < 8; ++i) crc = Step(crc);
    of_zeros = ~crc;
  }
};
inline constexpr Tables kTables;

}  // namespace crc32c_internal

// CRC32C of the 8 little-endian bytes of `value`: a table look-up a byte, all independent of each
// other, which for so few bytes is faster than any general routine.
inline std::uint32_t Crc32cOfU64(std::uint64_t value) {
  std::uint32_t crc = crc32c_internal::kTables.of_zeros;
  for (int place = 0; place < 8; ++place) {
    crc ^= crc32c_internal::kTables.of_byte[place][(value >> (8 * place)) & 0xff];
  }
  return crc;
}

}  // namespace stoker
