// InflateCursor: the one place at which a compressed shard is being inflated, front to back.
//
// Whoever wants a segment that lies behind the cursor makes it start over; whoever wants one ahead
// pays for what lies between. What becomes of the segments on the way is the sink's business.
//
// A segment is the records whose headers lie in its stretch of `segment_bytes` of the inflated
// stream. Ownership: borrows source and index. Thread-safety: one caller at a time. Blocking:
// reads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/fault.h"
#include "daemon/io/byte_stream.h"
#include "daemon/io/shard_index.h"

namespace stoker::io {

// What keeps a stretch of a shard from being read; no fault where nothing does.
struct Broken {
  FaultClass fault = FaultClass::kNone;
  std::string detail;
};

// A segment's place in the inflated stream: from its first header to behind its last record, but
// without a last record that is longer than `largest`, which is never held.
struct Stretch {
  std::uint64_t begin = 0;   // record
  std::uint64_t end = 0;     // record
  std::uint64_t offset = 0;  // of the first header
  std::uint64_t kept = 0;    // bytes to hold
  std::uint64_t bytes = 0;   // bytes to the next segment
};
// REQUIRES: the segment holds a record.
Stretch StretchOf(const ShardIndex& index, std::uint64_t segment, std::uint64_t segment_bytes,
                  std::uint64_t largest);

// Where inflated segments go.
class SegmentSink {
 public:
  virtual ~SegmentSink() = default;
  // Room for the kept bytes of a segment; empty where they are not wanted.
  virtual std::span<std::byte> Room(std::uint64_t segment, const Stretch& stretch) = 0;
  // Whether what was read just now may be of another file than the index: it is asked after the
  // reading and before the room counts.
  virtual bool Stale() = 0;
  // The room is filled.
  virtual void Done(std::uint64_t segment) = 0;
};

class InflateCursor {
 public:
  InflateCursor(const ByteSource* source, std::uint64_t file_bytes, Compression compression,
                const ShardIndex* index, std::uint64_t segment_bytes, std::uint64_t largest)
      : source_(*source),
        file_bytes_(file_bytes),
        compression_(compression),
        index_(*index),
        segment_bytes_(segment_bytes),
        largest_(largest) {}

  // Inflates until `segment` is done. False with *broken where that is not possible; what fails
  // twice, unless it could not be read, is not tried again.
  bool Reach(std::uint64_t segment, SegmentSink* sink, Broken* broken);

  std::uint64_t bytes() const { return inflated_; }
  std::uint64_t restarts() const { return restarts_; }
  std::uint64_t rereads() const { return rereads_; }

 private:
  bool Try(std::uint64_t segment, SegmentSink* sink, Broken* broken);
  bool Break(FaultClass fault, std::string detail, Broken* broken);

  const ByteSource& source_;
  const std::uint64_t file_bytes_;
  const Compression compression_;
  const ShardIndex& index_;
  const std::uint64_t segment_bytes_;
  const std::uint64_t largest_;

  std::unique_ptr<ByteStream> stream_;
  std::uint64_t record_ = 0;  // the stream stands before it
  std::uint64_t broken_from_ = ~std::uint64_t{0};
  Broken broken_;
  std::uint64_t inflated_ = 0;
  std::uint64_t restarts_ = 0;
  std::uint64_t rereads_ = 0;
};

}  // namespace stoker::io
