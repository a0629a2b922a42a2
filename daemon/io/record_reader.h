// Shard, RecordBlock: records by number, as workers read them.
//
// A Shard is an open file with its index. Read() takes a run of neighbouring records with one
// pread, checks both checksums while the bytes are hot, and answers each record or its fault; one
// bad record never costs its neighbours. A record that fails its checksum is read once more first:
// storage sometimes lies once. Compressed shards are read through segments of their inflated
// stream, which InflatedCache keeps within its budget.
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

// Segments of inflated shards, least recently used first out.
class InflatedCache {
 public:
  struct Segment {
    std::uint64_t first = 0;   // record
    std::uint64_t offset = 0;  // of its header in the inflated stream
    std::vector<std::byte> bytes;
  };
  using Key = std::pair<const void*, std::uint64_t>;

  explicit InflatedCache(std::uint64_t budget_bytes) : budget_(budget_bytes) {}

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
  std::shared_ptr<const InflatedCache::Segment> SegmentFor(std::uint64_t segment, std::string* why,
                                                           FaultClass* fault) const;

  ShardFile file_;
  std::unique_ptr<ByteSource> source_;
  std::shared_ptr<const ShardIndex> index_;
  CrcMode crc_ = CrcMode::kFull;
  std::uint64_t max_record_bytes_ = 0;
  InflatedCache* cache_ = nullptr;
  std::uint64_t segment_records_ = 1;

  // The sequential cursor of a compressed shard.
  mutable std::mutex cursor_mutex_;
  mutable std::unique_ptr<ByteStream> cursor_;
  mutable std::uint64_t cursor_segment_ = 0;

  mutable std::atomic<std::uint64_t> bytes_read_{0};
  mutable std::atomic<std::uint64_t> rereads_{0};
  mutable std::atomic<std::uint64_t> restarts_{0};
};

}  // namespace stoker::io
