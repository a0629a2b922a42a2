#include "daemon/io/segment_cache.h"

#include <utility>

namespace stoker::io {

std::shared_ptr<const Segment> SegmentCache::Get(const SegmentKey& key) {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  uses_.splice(uses_.begin(), uses_, it->second.use);
  return it->second.segment;
}

void SegmentCache::Put(const SegmentKey& key, std::shared_ptr<const Segment> segment) {
  std::lock_guard lock(mutex_);
  if (entries_.contains(key)) return;
  bytes_ += segment->size;
  uses_.push_front(key);
  entries_[key] = {std::move(segment), uses_.begin()};
  while (bytes_ > budget_ && entries_.size() > 1) {
    const auto oldest = entries_.find(uses_.back());
    bytes_ -= oldest->second.segment->size;
    entries_.erase(oldest);
    uses_.pop_back();
  }
}

std::uint64_t SegmentCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace stoker::io
