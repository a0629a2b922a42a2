#include "shm/token.h"

namespace stoker::shm {
namespace {

// CRC32C, bit by bit: 68 bytes, once a checkpoint, in a library that links libc alone.
std::uint32_t Checksum(const unsigned char* bytes, std::size_t n) {
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i < n; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

template <typename F>
void EachField(F f) {
  f(&TokenFields::epoch);
  f(&TokenFields::row);
  f(&TokenFields::seed);
  f(&TokenFields::batch);
  f(&TokenFields::world);
  f(&TokenFields::source_hash);
  f(&TokenFields::order_hash);
  f(&TokenFields::tensors_hash);
  f(&TokenFields::batch_hash);
  f(&TokenFields::delivery_hash);
  f(&TokenFields::paths_hash);
  f(&TokenFields::data_hash);
}

constexpr std::size_t kFieldBytes = kTokenBytes - 4;

template <typename T>
unsigned char* PutLittle(T value, unsigned char* out) {
  for (std::size_t i = 0; i < sizeof(T); ++i) *out++ = static_cast<unsigned char>(value >> (8 * i));
  return out;
}

template <typename T>
const unsigned char* GetLittle(const unsigned char* in, T* value) {
  *value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) *value |= static_cast<T>(T{*in++} << (8 * i));
  return in;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void EncodeToken(const TokenFields& fields, char* out) {
  unsigned char bytes[kTokenBytes];
  unsigned char* end = bytes;
  EachField([&](auto member) { end = PutLittle(fields.*member, end); });
  PutLittle(Checksum(bytes, kFieldBytes), end);
  for (const char c : kTokenPrefix) *out++ = c;
  for (const unsigned char byte : bytes) {
    *out++ = "0123456789abcdef"[byte >> 4];
    *out++ = "0123456789abcdef"[byte & 15];
  }
}

const char* DecodeToken(std::string_view text, TokenFields* out) {
  constexpr std::string_view kFamily = "stoker";
  for (std::size_t i = 0; i < kFamily.size(); ++i) {
    if (i >= text.size() || text[i] != kFamily[i]) return "this is not a Stoker token";
  }
  for (std::size_t i = kFamily.size(); i < kTokenPrefix.size(); ++i) {
    if (i >= text.size() || text[i] != kTokenPrefix[i]) {
      return "the token is of another version than this program reads (1)";
    }
  }
  if (text.size() != kTokenChars) return "the token was cut or something was added to it";
  unsigned char bytes[kTokenBytes];
  for (std::size_t i = 0; i < kTokenBytes; ++i) {
    const int high = HexDigit(text[kTokenPrefix.size() + 2 * i]);
    const int low = HexDigit(text[kTokenPrefix.size() + 2 * i + 1]);
    if (high < 0 || low < 0) return "the token holds a character that is not a hexadecimal digit";
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  const unsigned char* at = bytes;
  EachField([&](auto member) { at = GetLittle(at, &(out->*member)); });
  std::uint32_t checksum = 0;
  GetLittle(at, &checksum);
  return checksum == Checksum(bytes, kFieldBytes) ? nullptr
                                                  : "the token's checksum does not match: it was "
                                                    "changed";
}

}  // namespace stoker::shm
