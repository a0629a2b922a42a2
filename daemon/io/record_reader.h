// Shard, RecordBlock: records by number, as workers read them.
//
// A Shard is an open file with its index. Read() takes a run of neighbouring records with one
// pread, checks both checksums while the bytes are hot, and answers each record or its fault; one
// bad record never costs its neighbours. A record that fails its checksum is read once more first:
// storage sometimes lies once. Compressed shards are read through segments of their inflated
// stream, which InflatedCache keeps within its budget.
//
// A file that shrank or was rewritten is noticed by its size and mtime, even where every checksum
// of the new bytes is right. It is looked at no more than once in 10 ms, because that costs as much
// as reading a small record.
//
// Ownership: a RecordBlock owns the bytes its records point into, and reuses them. Payloads stay
//   valid until Clear(), also when more is appended.
// Thread-safety: Shard and InflatedCache from any thread; a RecordBlock belongs to one.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/io/manifest.h"
#include "daemon/io/shard_index.h"

namespace stoker::io {

struct Record {
  std::span<const std::byte> payload;  // empty with a fault
  FaultClass fault = FaultClass::kNone;
  std::uint64_t offset = 0;  // of its header
  std::uint64_t number = 0;
};

class RecordBlock {
 public:
  std::span<const Record> records() const { return records_; }
  // What is wrong with records()[i]; empty for a good one.
  std::string fault_detail(std::size_t i) const;
  void Clear();

  std::uint64_t memory_bytes() const;

  // Room for `bytes` that stays where it is until Clear().
  std::span<std::byte> Allocate(std::size_t bytes);
  void Append(Record record) { records_.push_back(record); }
  void AppendFault(FaultClass fault, std::uint64_t number, std::uint64_t offset,
                   std::string detail);

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::vector<Record> records_;
  std::vector<std::pair<std::size_t, std::string>> details_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

// Segments of inflated shards, least recently used first out. The one used last stays, whatever the
// budget: it was inflated to be read.
class InflatedCache {
 public:
  struct Segment {
    std::uint64_t first = 0;   // record
    std::uint64_t offset = 0;  // of its header in the inflated stream
    std::vector<std::byte> bytes;
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // shard, from NewShard(); segment

  explicit InflatedCache(std::uint64_t budget_bytes) : budget_(budget_bytes) {}

  std::uint64_t NewShard() { return shards_.fetch_add(1, std::memory_order_relaxed); }
  std::shared_ptr<const Segment> Get(const Key& key);
  void Put(const Key& key, std::shared_ptr<const Segment> segment);
  std::uint64_t bytes() const;

 private:
  struct Entry {
    std::shared_ptr<const Segment> segment;
    std::list<Key>::iterator use;
  };
  const std::uint64_t budget_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::list<Key> uses_;  // front: used last
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> shards_{0};
};

class Shard {
 public:
  // `cache` is needed for compressed shards, and outlives the shard. kDataLoss shard-changed where
  // the file is not the one of the manifest.
  static Result<std::shared_ptr<Shard>> Open(const ShardFile& file,
                                             std::shared_ptr<const ShardIndex> index, CrcMode crc,
                                             InflatedCache* cache, std::uint64_t max_record_bytes);
  // As Open(), over any source: for tests.
  static std::shared_ptr<Shard> Over(std::unique_ptr<ByteSource> source, const ShardFile& file,
                                     std::shared_ptr<const ShardIndex> index, CrcMode crc,
                                     InflatedCache* cache, std::uint64_t max_record_bytes);

  const ShardIndex& index() const { return *index_; }
  const ShardFile& file() const { return file_; }

  // Appends records [first, first + count). REQUIRES: first + count <= index().records().
  void Read(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;

  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t rereads() const { return rereads_; }
  std::uint64_t restarts() const { return restarts_; }  // of inflating from the shard's start

 private:
  Shard() = default;

  void ReadPlain(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;
  void ReadInflated(std::uint64_t first, std::uint32_t count, RecordBlock* block) const;
  void ReadAgain(std::uint64_t record, FaultClass fault, RecordBlock* block) const;
  FaultClass Check(const std::byte* framed, const Extent& extent) const;
  void AppendFaulty(std::uint64_t record, FaultClass fault, RecordBlock* block) const;

  // What keeps a stretch of a compressed shard from being read.
  struct Broken {
    FaultClass fault = FaultClass::kNone;
    std::string detail;
  };
  using SegmentPtr = std::shared_ptr<const InflatedCache::Segment>;
  // The segment that holds `record`, or null and why in *broken.
  SegmentPtr SegmentOf(std::uint64_t record, Broken* broken) const;
  SegmentPtr Inflate(std::uint64_t segment, std::uint64_t begin, std::uint64_t end,
                     Broken* broken) const;
  // The records [begin, end) at the cursor, which moves behind them.
  SegmentPtr InflateHere(std::uint64_t begin, std::uint64_t end, Broken* broken) const;
  void BrokenHere(Broken* broken) const;

  bool Rewritten() const;
  // As above, but at most once in a while.
  bool RewrittenLately() const;

  ShardFile file_;
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<const ShardIndex> index_;
  CrcMode crc_ = CrcMode::kFull;
  std::uint64_t max_record_bytes_ = 0;
  InflatedCache* cache_ = nullptr;
  std::uint64_t cache_key_ = 0;

  // The sequential cursor of a compressed shard: it stands before cursor_record_. From broken_from_
  // on inflating failed twice, and is not tried again.
  mutable std::mutex cursor_mutex_;
  mutable std::unique_ptr<ByteStream> cursor_;
  mutable std::uint64_t cursor_record_ = 0;
  mutable std::uint64_t broken_from_ = ~std::uint64_t{0};
  mutable Broken broken_;

  mutable std::atomic<std::int64_t> looked_at_ns_{0};  // when the file was looked at last
  mutable std::atomic<bool> rewritten_{false};

  mutable std::atomic<std::uint64_t> bytes_read_{0};
  mutable std::atomic<std::uint64_t> rereads_{0};
  mutable std::atomic<std::uint64_t> restarts_{0};
};

}  // namespace stoker::io
