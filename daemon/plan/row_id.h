// Row ids: which record a row is. `shard << 40 | record`: place in the sorted manifest, place in
// the shard. They need no counts, so they can be named before an index is complete.
#pragma once

#include <cstdint>

namespace stoker::plan {

using RowId = std::int64_t;

inline constexpr RowId kFillerRow = -1;
inline constexpr int kRecordBits = 40;

constexpr RowId MakeRowId(std::uint32_t shard, std::uint64_t record) {
  return static_cast<RowId>(std::uint64_t{shard} << kRecordBits | record);
}
constexpr std::uint32_t ShardOf(RowId id) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(id) >> kRecordBits);
}
constexpr std::uint64_t RecordOf(RowId id) {
  return static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << kRecordBits) - 1);
}

}  // namespace stoker::plan
