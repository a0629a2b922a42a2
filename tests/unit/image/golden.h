// The image vectors' own forms: arrays as hex or as base64 of a zlib stream, files as hex.
#pragma once

#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_data.h"

namespace stoker::image {

using Json = nlohmann::json;

// How many vectors fell under each answer: asserted whole, so that none passes by being skipped.
using Counts = std::map<std::string, int>;

inline std::string Text(const Counts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += name + " " + std::to_string(count) + "\n";
  return text;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<Json> ReadLines(const std::string& name) {
  std::ifstream in(test::GoldenDir() / "image" / name);
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  return rows;
}

inline std::string Unhex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

inline std::string Unbase64(const std::string& text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8));
  }
  return out;
}

// Height x width x channels; each value as a float, which holds all uint8 and uint16 exactly.
struct Array {
  std::string dtype;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
  std::vector<float> values;
};

inline Array ToArray(const Json& json) {
  Array array;
  array.dtype = json["dtype"];
  array.height = json["shape"][0];
  array.width = json["shape"][1];
  array.channels = json["shape"][2];
  const std::size_t n = std::size_t{array.height} * array.width * array.channels;
  const std::size_t item = array.dtype == "uint8" ? 1 : array.dtype == "float32" ? 4 : 2;
  std::string bytes;
  if (json.contains("hex")) {
    bytes = Unhex(json["hex"]);
  } else {
    const std::string packed = Unbase64(json["zb64"]);
    uLongf size = n * item;
    bytes.resize(size);
    REQUIRE(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  }
  REQUIRE(bytes.size() == n * item);
  array.values.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (item == 1) array.values[i] = static_cast<float>(static_cast<std::uint8_t>(bytes[i]));
    if (item == 4) std::memcpy(&array.values[i], bytes.data() + 4 * i, 4);
    if (item == 2) {
      std::uint16_t value = 0;
      std::memcpy(&value, bytes.data() + 2 * i, 2);
      array.values[i] = static_cast<float>(value);
    }
  }
  return array;
}

template <typename T>
std::string Digest(const std::vector<T>& values) {
  Sha256 digest;
  digest.Update(std::as_bytes(std::span(values)));
  return Sha256::Hex(digest.Finish());
}

}  // namespace stoker::image
