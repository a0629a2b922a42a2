// How many varints a packed chunk holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker::example {

std::int64_t CountVarintsOfMany(std::span<const std::byte> chunk);

// -1 where a varint runs over the chunk's end or is longer than ten bytes.
inline std::int64_t CountVarints(std::span<const std::byte> chunk) {
  if (chunk.size() == 1) return chunk[0] < std::byte{0x80} ? 1 : -1;
  return CountVarintsOfMany(chunk);
}

}  // namespace stoker::example
