// The protobuf wire format, as far as Examples need it. docs/formats/example.md has the grammar.
//
// A Cursor never reads past its end, whatever the bytes are. Lengths above 32 bits or of ten bytes
// are malformed in every mode; those of six to nine bytes TensorFlow alone reads. Bits beyond the
// 64th in a tenth byte of a value are dropped, as all readers do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace stoker::example {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Cursor {
 public:
  Cursor(const std::byte* begin, const std::byte* end) : at_(begin), end_(end) {}
  explicit Cursor(std::span<const std::byte> bytes)
      : Cursor(bytes.data(), bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  const std::byte* at() const { return at_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  // A varint of at most ten bytes; *bytes is how many it took.
  bool Varint(std::uint64_t* value, int* bytes) {
    if (at_ != end_ && (*at_ & std::byte{0x80}) == std::byte{0}) {
      *value = static_cast<std::uint64_t>(*at_++);
      *bytes = 1;
      return true;
    }
    std::uint64_t result = 0;
    for (int i = 0; i < 10; ++i) {
      if (at_ == end_) return false;
      const auto byte = static_cast<std::uint64_t>(*at_++);
      if (7 * i < 64) result |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        *value = result;
        *bytes = i + 1;
        return true;
      }
    }
    return false;
  }

  // A length, which protobuf reads from five bytes at most, and the bytes it covers. Stays where it
  // is when that fails.
  bool Bytes(std::span<const std::byte>* out) { return Bytes(5, out); }
  // The same, also where the length is written in up to nine bytes.
  bool LooseBytes(std::span<const std::byte>* out) { return Bytes(9, out); }

  bool Skip(std::size_t bytes) {
    if (bytes > left()) return false;
    at_ += bytes;
    return true;
  }

 private:
  bool Bytes(int longest, std::span<const std::byte>* out) {
    std::uint64_t length = 0;
    int bytes = 0;
    const std::byte* const start = at_;
    if (!Varint(&length, &bytes) || bytes > longest || length > left()) {
      at_ = start;
      return false;
    }
    *out = {at_, static_cast<std::size_t>(length)};
    at_ += length;
    return true;
  }

  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace stoker::example
