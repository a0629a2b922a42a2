#include "client/src/token.h"

#include <cinttypes>
#include <cstdio>

namespace stoker::client {
namespace {

// CRC32C, bit by bit: some 150 bytes, once a checkpoint, in a library that links libc alone.
std::uint32_t Checksum(const char* text, std::size_t n) {
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i < n; ++i) {
    crc ^= static_cast<unsigned char>(text[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

}  // namespace

std::size_t EncodeToken(const TokenFields& f, char* out) {
  // At most 7 + 27 + 25 + 26 + 17 + 17 + 50 + 39 + 13 characters.
  const int n =
      std::snprintf(out, kTokenCapacity,
                    "stoker1:epoch=%" PRIu64 ":row=%" PRIu64 ":seed=%" PRIu64 ":batch=%" PRIu32
                    ":world=%" PRIu32 ":spec=%08" PRIx32 "-%08" PRIx32 "-%08" PRIx32 "-%08" PRIx32
                    "-%08" PRIx32 ":data=%016" PRIx64 "-%016" PRIx64,
                    f.epoch, f.row, f.seed, f.batch, f.world, f.source_hash, f.order_hash,
                    f.tensors_hash, f.batch_hash, f.delivery_hash, f.paths_hash, f.data_hash);
  const auto length = static_cast<std::size_t>(n);
  return length + static_cast<std::size_t>(std::snprintf(out + length, kTokenCapacity - length,
                                                         ":crc=%08" PRIx32, Checksum(out, length)));
}

}  // namespace stoker::client
