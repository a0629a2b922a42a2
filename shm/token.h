// Token: a position plus the hashes that make it safe, as text under 256 bytes.
//
// The daemon reads tokens, the client writes them: the position is what the trainer consumed. The
// text is "stoker1-" and 144 hexadecimal digits: the fields below, little-endian and in this
// order, and a CRC32C of them. docs/formats/token.md is the normative page.
//
// Thread-safety: plain functions. No allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker::shm {

struct TokenFields {
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;  // global row: the first of the next step
  std::uint64_t seed = 0;
  std::uint32_t batch = 0;
  std::uint32_t world = 0;
  std::uint32_t source_hash = 0;
  std::uint32_t order_hash = 0;
  std::uint32_t tensors_hash = 0;
  std::uint32_t batch_hash = 0;
  std::uint32_t delivery_hash = 0;
  std::uint64_t paths_hash = 0;
  std::uint64_t data_hash = 0;  // 0: not compared
};

inline constexpr std::string_view kTokenPrefix = "stoker1-";
inline constexpr std::size_t kTokenBytes = 72;  // fields and checksum
inline constexpr std::size_t kTokenChars = 8 + 2 * kTokenBytes;

// Writes kTokenChars characters, without a terminating zero.
void EncodeToken(const TokenFields& fields, char* out);

// nullptr, or what is wrong with `text`.
const char* DecodeToken(std::string_view text, TokenFields* out);

}  // namespace stoker::shm
