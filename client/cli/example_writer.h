// ExampleWriter: the bytes of a tf.train.Example, canonical: keys in the order given, numbers
// packed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stoker::cli {

class ExampleWriter {
 public:
  void Int64(std::string_view key, std::span<const std::int64_t> values) {
    std::string chunk;
    for (const std::int64_t value : values) Varint(static_cast<std::uint64_t>(value), &chunk);
    Feature(key, 3, Field(1, chunk));
  }
  void Float(std::string_view key, std::span<const float> values) {
    Feature(
        key, 2,
        Field(1, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  }
  void Bytes(std::string_view key, std::string_view value) { Feature(key, 1, Field(1, value)); }

  // The Example written so far; starts the next one.
  std::string Take() {
    std::string example = Field(1, features_);
    features_.clear();
    return example;
  }

 private:
  static void Varint(std::uint64_t value, std::string* out) {
    for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
    *out += static_cast<char>(value);
  }
  static std::string Field(int number, std::string_view bytes) {
    std::string out(1, static_cast<char>(number << 3 | 2));
    Varint(bytes.size(), &out);
    return out.append(bytes);
  }
  void Feature(std::string_view key, int kind, const std::string& list) {
    features_ += Field(1, Field(1, key) + Field(2, Field(kind, list)));
  }

  std::string features_;
};

}  // namespace stoker::cli
