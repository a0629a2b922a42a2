// SegmentCache: stretches of shards, kept because neighbours of what was read are wanted next.
//
// A segment holds the records whose headers lie in one stretch of the (inflated) stream. The least
// recently used go first. The one used last stays, whatever the budget: it was made to be read.
//
// Ownership: segments are shared with whoever reads them. Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace stoker::io {

struct Segment {
  std::uint64_t offset = 0;  // of its first header in the inflated stream
  std::size_t size = 0;
  std::unique_ptr<std::byte[]> bytes;
};

struct SegmentKey {
  std::uint64_t shard = 0;  // from NewShard()
  std::uint64_t number = 0;
  auto operator<=>(const SegmentKey&) const = default;
};

class SegmentCache {
 public:
  explicit SegmentCache(std::uint64_t budget_bytes) : budget_(budget_bytes) {}

  std::uint64_t NewShard() { return shards_.fetch_add(1, std::memory_order_relaxed); }
  std::shared_ptr<const Segment> Get(const SegmentKey& key);
  void Put(const SegmentKey& key, std::shared_ptr<const Segment> segment);
  std::uint64_t bytes() const;
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  std::uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<const Segment> segment;
    std::list<SegmentKey>::iterator use;
  };
  const std::uint64_t budget_;
  mutable std::mutex mutex_;
  std::map<SegmentKey, Entry> entries_;
  std::list<SegmentKey> uses_;  // front: used last
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> shards_{0};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
};

}  // namespace stoker::io
