// FeatureSpan: where a feature's values lie in a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker::example {

// The list a feature is stored as. kNone: missing, or a Feature with no kind, which counts as such.
enum class Kind : std::uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

struct FeatureSpan {
  Kind kind = Kind::kNone;
  bool packed = false;               // numbers: one chunk without tags
  bool merged = false;               // `bytes` is a whole map entry, to be walked as protobuf does
  bool steps = false;                // `bytes` is a FeatureList, whose steps hold the values
  std::uint32_t count = 0;           // values
  std::span<const std::byte> bytes;  // the chunk, or the list's content
};

}  // namespace stoker::example
