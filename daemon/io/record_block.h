// RecordBlock: the records of one run, and the bytes they lie in.
//
// A payload lies in the block's own memory, in a segment that the block pins, or in a resident copy
// that outlives every block. Payloads stay valid until Clear(), also when more is appended.
//
// Ownership: owns its memory and reuses it; shares the segments it pins.
// Thread-safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/io/segment_cache.h"

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
  void Append(const Record& record) { records_.push_back(record); }
  void AppendFault(FaultClass fault, std::uint64_t number, std::uint64_t offset,
                   std::string detail);

  // The segment that Pin() took under this key, or nullptr.
  const Segment* Pinned(const SegmentKey& key) const;
  // Keeps `segment` until Clear(). Answers false where enough are kept: then its bytes must be
  // copied, for a run in random order would hold the whole cache and more.
  bool Pin(const SegmentKey& key, std::shared_ptr<const Segment> segment);

 private:
  static constexpr std::size_t kPlaces = 128;  // of an open hash table, at most half full
  static constexpr std::size_t kMostPins = kPlaces / 2;

  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  struct PinnedSegment {
    SegmentKey key;
    std::shared_ptr<const Segment> segment;
  };

  static std::size_t PlaceOf(const SegmentKey& key) {
    return static_cast<std::size_t>((key.shard * 31 + key.number) * 0x9e3779b97f4a7c15ull >> 57);
  }

  std::vector<Record> records_;
  std::vector<std::pair<std::size_t, std::string>> details_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
  std::vector<PinnedSegment> pins_;
  std::array<std::uint8_t, kPlaces> places_ = {};  // 1 + index in pins_, 0: free
};

}  // namespace stoker::io
