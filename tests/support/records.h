// TFRecords and Examples written from their formats' pages, and not from the code under test, so
// that one misreading cannot hide in both.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::test {

// CRC32C bit by bit.
inline std::uint32_t SlowCrc(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

inline std::string Little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string MaskedCrc(std::string_view bytes) {
  const std::uint32_t crc = SlowCrc(bytes);
  return Little(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

inline std::string Frame(const std::string& payload) {
  const std::string length = Little(payload.size(), 8);
  return length + MaskedCrc(length) + payload + MaskedCrc(payload);
}

inline std::string Varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

inline std::string Field(int number, const std::string& bytes) {
  return Varint(static_cast<std::uint64_t>(number) << 3 | 2) + Varint(bytes.size()) + bytes;
}

inline std::string Ints(const std::vector<std::int64_t>& values) {
  std::string chunk;
  for (const auto value : values) chunk += Varint(static_cast<std::uint64_t>(value));
  return Field(3, Field(1, chunk));
}
inline std::string Floats(const std::vector<float>& values) {
  std::string chunk(values.size() * 4, '\0');
  if (!values.empty()) std::memcpy(chunk.data(), values.data(), chunk.size());
  return Field(2, Field(1, chunk));
}
inline std::string Strings(const std::vector<std::string>& values) {
  std::string list;
  for (const auto& value : values) list += Field(1, value);
  return Field(1, list);
}

// An Example of features given as (key, Feature message).
inline std::string Example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string entries;
  for (const auto& [key, feature] : features)
    entries += Field(1, Field(1, key) + Field(2, feature));
  return Field(1, entries);
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace stoker::test
