#include "daemon/io/record_block.h"

#include <algorithm>

namespace stoker::io {
namespace {

constexpr std::size_t kChunkBytes = 256 << 10;

}  // namespace

std::string RecordBlock::fault_detail(std::size_t i) const {
  for (const auto& [index, detail] : details_) {
    if (index == i) return detail;
  }
  return {};
}

void RecordBlock::Clear() {
  records_.clear();
  details_.clear();
  chunk_ = 0;
  used_ = 0;
  if (pins_.empty()) return;
  pins_.clear();
  places_.fill(0);
}

std::span<std::byte> RecordBlock::Allocate(std::size_t bytes) {
  if (chunk_ < chunks_.size() && used_ > 0 && chunks_[chunk_].size - used_ < bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) chunks_.emplace_back();
  Chunk& chunk = chunks_[chunk_];
  if (chunk.size - used_ < bytes) {
    // Nothing of this chunk is in use. Were it kept beside a larger one, a block that is used for
    // ever would grow with every new order of sizes.
    const std::size_t size = std::max(bytes, kChunkBytes);
    chunk = {};
    chunk = {std::make_unique_for_overwrite<std::byte[]>(size), size};
  }
  std::byte* at = chunk.bytes.get() + used_;
  used_ += bytes;
  return {at, bytes};
}

std::uint64_t RecordBlock::memory_bytes() const {
  std::uint64_t sum = records_.capacity() * sizeof(Record);
  for (const Chunk& chunk : chunks_) sum += chunk.size;
  return sum;
}

void RecordBlock::AppendFault(FaultClass fault, std::uint64_t number, std::uint64_t offset,
                              std::string detail) {
  details_.emplace_back(records_.size(), std::move(detail));
  records_.push_back({{}, fault, offset, number});
}

const Segment* RecordBlock::Pinned(const SegmentKey& key) const {
  for (std::size_t at = PlaceOf(key);; at = (at + 1) % kPlaces) {
    if (places_[at] == 0) return nullptr;
    const PinnedSegment& pin = pins_[places_[at] - 1u];
    if (pin.key == key) return pin.segment.get();
  }
}

bool RecordBlock::Pin(const SegmentKey& key, std::shared_ptr<const Segment> segment) {
  if (pins_.size() >= kMostPins) return false;
  std::size_t at = PlaceOf(key);
  while (places_[at] != 0) at = (at + 1) % kPlaces;
  pins_.push_back({key, std::move(segment)});
  places_[at] = static_cast<std::uint8_t>(pins_.size());
  return true;
}

}  // namespace stoker::io
