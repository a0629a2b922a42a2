// Shard: an open file with its index, read by record number.
//
// Read() checks both checksums while the bytes are hot and answers each record or its fault; one
// bad record never costs its neighbours. A record that fails its checksum is read once more first:
// storage sometimes lies once. Where the bytes come from is the holding's business:
//
//   kDirect    one pread for a run of neighbours (plain shards)
//   kCached    segments in a SegmentCache: for runs whose neighbours are wanted soon, and for all
//              compressed shards, which can only be inflated front to back
//   kResident  a copy of the whole shard, filled on first use and kept
//
// A file that shrank or was rewritten is noticed by its size and mtime, even where every checksum
// of the new bytes is right. It is looked at no more than once in 10 ms, because that costs as much
// as reading a small record.
//
// Thread-safety: any thread; a RecordBlock belongs to one. Blocking: reads files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/io/inflate_cursor.h"
#include "daemon/io/manifest.h"
#include "daemon/io/record_block.h"
#include "daemon/io/resident_copy.h"
#include "daemon/io/segment_cache.h"
#include "daemon/io/shard_index.h"

namespace stoker::io {

enum class Holding : std::uint8_t { kDirect, kCached, kResident };

struct ShardOptions {
  CrcMode crc = CrcMode::kFull;
  std::uint64_t max_record_bytes = (std::uint64_t{1} << 31) - 1;
  Holding holding = Holding::kDirect;
  SegmentCache* cache = nullptr;  // for kCached; outlives the shard
};

class Shard {
 public:
  // kDataLoss shard-changed where the file is not the one of the manifest. A compressed shard under
  // kDirect is a programmer's error.
  static Result<std::shared_ptr<Shard>> Open(const ShardFile& file,
                                             std::shared_ptr<const ShardIndex> index,
                                             const ShardOptions& options);
  // As Open(), over any source: for tests.
  static Result<std::shared_ptr<Shard>> Over(std::unique_ptr<ByteSource> source,
                                             const ShardFile& file,
                                             std::shared_ptr<const ShardIndex> index,
                                             const ShardOptions& options);

  const ShardIndex& index() const { return *index_; }
  const ShardFile& file() const { return file_; }
  Holding holding() const { return options_.holding; }

  // Appends records [first, first + count). REQUIRES: first + count <= index().records().
  void Read(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;
  // Ask the CPU for a record that Read() will be asked for soon into `block`: first for its place,
  // then, when that is there, for its bytes. They do nothing where these are not in memory yet.
  void PrefetchPlace(std::uint64_t record) const {
    if (options_.holding != Holding::kDirect) index_->Prefetch(record);
  }
  void Prefetch(std::uint64_t record, const RecordBlock& block) const;

  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t rereads() const;
  std::uint64_t restarts() const;  // of inflating from the shard's start
  std::uint64_t resident_bytes() const { return copy_ == nullptr ? 0 : copy_->bytes(); }

 private:
  Shard() = default;
  bool plain() const { return file_.compression == Compression::kPlain; }

  void ReadDirect(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;
  void ReadPlain(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;
  void ReadHeld(std::uint64_t record, RecordBlock* block) const;
  void ReadAgain(std::uint64_t record, FaultClass fault, RecordBlock* block) const;
  FaultClass Check(const std::byte* framed, const Extent& extent) const;
  void AppendFaulty(std::uint64_t record, FaultClass fault, RecordBlock* block) const;

  // Where the record's header lies in memory. nullptr where it is not to be had: *broken says why,
  // or nothing, and then the file itself must be asked.
  const std::byte* Resident(const Extent& extent, Broken* broken) const;
  const std::byte* Cached(const Extent& extent, RecordBlock* block, Broken* broken) const;
  std::shared_ptr<const Segment> MakeSegment(const SegmentKey& key, Broken* broken) const;
  bool ReadStretch(const Stretch& stretch, std::byte* out) const;
  // With cursor_mutex_ held.
  bool InflateLocked(std::uint64_t segment, SegmentSink* sink, Broken* broken) const;

  bool Rewritten() const;
  // As above, but at most once in a while.
  bool RewrittenLately() const;

  ShardFile file_;
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<const ShardIndex> index_;
  ShardOptions options_;
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t largest_held_ = 0;  // a longer payload is no part of a segment
  std::uint64_t cache_key_ = 0;
  std::unique_ptr<ResidentCopy> copy_;

  mutable std::mutex cursor_mutex_;
  std::unique_ptr<InflateCursor> cursor_;  // of a compressed shard

  mutable std::atomic<std::int64_t> looked_at_ns_{0};  // when the file was looked at last
  mutable std::atomic<bool> rewritten_{false};

  mutable std::atomic<std::uint64_t> bytes_read_{0};
  mutable std::atomic<std::uint64_t> rereads_{0};
};

}  // namespace stoker::io
