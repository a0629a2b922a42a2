// ShardIndex: where each record of a shard lies, in a few bits a record, found in O(1).
//
// Offsets are cut into blocks of 64. A block keeps its first offset, its mean stride and, packed,
// how far each offset is from that line; records of one size cost next to nothing. An index is
// built in one pass that checks every length, and kept in a sidecar that is validated before use
// (docs/formats/index-sidecar.md).
//
// Thread-safety: immutable. Blocking: LoadOrBuildIndex() reads the shard or its sidecar.
// Errors: a Status only for what keeps the shard from being opened at all; damage further in is
//   damage(), and the records before it are good.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/io/manifest.h"
#include "daemon/io/record_scanner.h"

namespace stoker::io {

struct Extent {
  std::uint64_t offset;  // of the header, in the inflated stream
  std::uint64_t length;  // of the payload
};

class ShardIndex {
 public:
  std::uint64_t records() const { return records_; }
  // REQUIRES: record < records().
  Extent At(std::uint64_t record) const {
    const std::uint64_t begin = Offset(record);
    return {begin, Offset(record + 1) - begin - 16};
  }
  // Asks the CPU for what At(record) will read.
  void Prefetch(std::uint64_t record) const {
    const Block* block = &blocks_[record / kBlockRecords];
    __builtin_prefetch(block);
    asm volatile("" : : "r"(block));  // else GCC drops calls of what seems to have no effect
  }
  std::uint64_t longest() const { return longest_; }  // payload bytes
  // The longest payload of at most `limit` bytes: one that is never delivered needs no room.
  std::uint64_t LongestWithin(std::uint64_t limit) const;
  // The first record whose header lies at `offset` or behind it; records() where none does.
  std::uint64_t FirstFrom(std::uint64_t offset) const;
  std::uint64_t crc_hash() const { return crc_hash_; }      // of all stored payload CRCs, in order
  std::uint64_t end_offset() const { return end_offset_; }  // behind the last good record
  const std::optional<Damage>& damage() const { return damage_; }
  std::uint64_t memory_bytes() const { return blocks_.size() * sizeof(Block) + bits_.size(); }

 private:
  friend class IndexBuilder;
  friend struct Sidecar;

  static constexpr std::uint64_t kBlockRecords = 64;

  struct Block {
    std::uint64_t base;  // the least that its line gives: offset(j) = base + slope * j + packed(j)
    std::uint64_t slope;
    std::uint64_t bits;   // where its packed values begin, bits
    std::uint64_t width;  // bits of a packed value, at most 57
  };

  std::uint64_t Offset(std::uint64_t record) const {
    if (record == records_) return end_offset_;
    const Block& block = blocks_[record / kBlockRecords];
    const std::uint64_t j = record % kBlockRecords;
    std::uint64_t packed = 0;
    if (block.width > 0) {
      const std::uint64_t bit = block.bits + j * block.width;
      __builtin_memcpy(&packed, bits_.data() + bit / 8, sizeof(packed));
      packed = (packed >> (bit % 8)) & ((std::uint64_t{1} << block.width) - 1);
    }
    return block.base + block.slope * j + packed;
  }

  std::uint64_t records_ = 0;
  std::uint64_t longest_ = 0;
  std::uint64_t crc_hash_ = 0;
  std::uint64_t end_offset_ = 0;
  std::optional<Damage> damage_;
  std::vector<Block> blocks_;
  std::vector<unsigned char> bits_;  // with 8 bytes of padding
};

// Takes records in order.
class IndexBuilder {
 public:
  IndexBuilder();
  void Add(std::uint64_t offset, std::uint64_t length, std::uint32_t stored_crc);
  // `end` is the offset behind the last record.
  std::shared_ptr<const ShardIndex> Finish(std::uint64_t end, std::optional<Damage> damage);

 private:
  void CloseBlock(std::uint64_t next_offset);

  std::shared_ptr<ShardIndex> index_;
  std::uint64_t pending_[ShardIndex::kBlockRecords];
  std::uint64_t pending_count_ = 0;
  std::uint64_t bit_count_ = 0;
};

struct IndexOptions {
  std::uint64_t max_record_bytes = (std::uint64_t{1} << 31) - 1;
  std::string cache_dir;  // of sidecars; empty: memory only
  std::atomic<std::uint64_t>* progress_bytes = nullptr;
  std::stop_token stop;
};

enum class IndexOrigin { kLoaded, kBuilt, kBuiltNotStored };

struct LoadedIndex {
  std::shared_ptr<const ShardIndex> index;
  IndexOrigin origin = IndexOrigin::kBuilt;
  std::string note;  // what a person should know, or empty
};

Result<LoadedIndex> LoadOrBuildIndex(const ShardFile& file, const IndexOptions& options);

// One pass over `source`, of which the first `size` bytes count.
Result<std::shared_ptr<const ShardIndex>> BuildIndex(const ByteSource& source, std::uint64_t size,
                                                     Compression compression,
                                                     const std::string& path,
                                                     const IndexOptions& options);

}  // namespace stoker::io
