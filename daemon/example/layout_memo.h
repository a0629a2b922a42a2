// LayoutMemo: records of one writer look alike, so the next one need not be parsed.
//
// Of a record that was parsed it keeps which bytes are structure (tags, lengths, keys, features
// that nobody asked for) and which are values. A record of the same length whose structure bytes
// are the same has the same spans, for nothing else steers the parser; of packed int64 values the
// number is counted anew, since their lengths are in their own bytes. A few layouts are kept, by
// length. What never repeats is soon no longer learned.
//
// Ownership: spans borrow the record. Thread-safety: one thread. No allocation once layouts are
//   known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/example/feature_span.h"

namespace stoker::example {

class LayoutMemo {
 public:
  // Fills `out` and answers true where the record has a known layout.
  bool Match(std::span<const std::byte> record, std::span<FeatureSpan> out);
  // `spans` are what parsing `record` gave, with nothing counted or complained about.
  void Learn(std::span<const std::byte> record, std::span<const FeatureSpan> spans);

 private:
  static constexpr std::size_t kLayouts = 8;
  static constexpr std::size_t kLongest = 4096;         // bytes of a record
  static constexpr std::uint32_t kLongestPause = 4096;  // records

  // Eight bytes of a record, of which those under the mask are structure.
  struct Word {
    std::uint32_t offset;
    std::uint64_t mask;
    std::uint64_t expected;
  };
  struct Place {
    Kind kind;
    bool packed;
    bool varints;  // packed int64: count them
    std::uint32_t count;
    std::uint32_t offset;
    std::uint32_t bytes;
  };
  struct Layout {
    std::size_t length = 0;  // of the record; 0: none
    std::uint32_t hits = 0;
    std::vector<Word> words;
    std::vector<Place> places;
  };

  void MarkValues(std::span<const std::byte> record, const FeatureSpan& span);

  std::array<Layout, kLayouts> layouts_;
  std::array<std::size_t, kLayouts> seen_ = {};  // lengths, last of each place
  std::vector<std::uint8_t> value_;              // by byte, while learning
  std::uint32_t pause_ = 0;                      // records until the next try to learn
  std::uint32_t next_pause_ = 1;
};

}  // namespace stoker::example
