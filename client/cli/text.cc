#include "client/cli/text.h"

#include <cstdio>

namespace stoker::cli {

std::string Bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string Base64(const std::byte* bytes, std::size_t n) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (std::size_t i = 0; i < n; i += 3) {
    std::uint32_t group = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (i + 1 < n) group |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (i + 2 < n) group |= static_cast<std::uint32_t>(bytes[i + 2]);
    out += kDigits[group >> 18];
    out += kDigits[(group >> 12) & 63];
    out += i + 1 < n ? kDigits[(group >> 6) & 63] : '=';
    out += i + 2 < n ? kDigits[group & 63] : '=';
  }
  return out;
}

}  // namespace stoker::cli
