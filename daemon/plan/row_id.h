// RowId: which record a row is. The shard's place in the sorted manifest and the record's place
// in the shard, in one number that needs no record counts: shard << 40 | record.
#pragma once

#include <cstdint>

namespace stoker::plan {

using RowId = std::int64_t;

inline constexpr int kRecordBits = 40;
inline constexpr RowId kFillerRow = -1;  // a row that is padding, or masked
inline constexpr std::uint64_t kMaxRecordsOfShard = std::uint64_t{1} << kRecordBits;
inline constexpr std::uint64_t kMaxShards = std::uint64_t{1} << 23;  // the sign bit stays clear

// REQUIRES: shard < kMaxShards, record < kMaxRecordsOfShard.
constexpr RowId MakeRowId(std::uint64_t shard, std::uint64_t record) {
  return static_cast<RowId>(shard << kRecordBits | record);
}
// REQUIRES: id is not kFillerRow.
constexpr std::uint64_t ShardOf(RowId id) { return static_cast<std::uint64_t>(id) >> kRecordBits; }
constexpr std::uint64_t RecordOf(RowId id) {
  return static_cast<std::uint64_t>(id) & (kMaxRecordsOfShard - 1);
}

}  // namespace stoker::plan
