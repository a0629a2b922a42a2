#include "daemon/io/inflate_cursor.h"

#include <utility>

#include "daemon/io/framing.h"

namespace stoker::io {

Stretch StretchOf(const ShardIndex& index, std::uint64_t segment, std::uint64_t segment_bytes,
                  std::uint64_t largest) {
  Stretch stretch;
  stretch.begin = index.FirstFrom(segment * segment_bytes);
  stretch.end = index.FirstFrom((segment + 1) * segment_bytes);
  stretch.offset = index.At(stretch.begin).offset;
  // Only the last record can be longer than a segment.
  const Extent last = index.At(stretch.end - 1);
  stretch.bytes = last.offset + last.length + kFramingBytes - stretch.offset;
  stretch.kept = last.length > largest ? last.offset - stretch.offset : stretch.bytes;
  return stretch;
}

bool InflateCursor::Reach(std::uint64_t segment, SegmentSink* sink, Broken* broken) {
  if (index_.FirstFrom(segment * segment_bytes_) >= broken_from_) {
    *broken = broken_;
    return false;
  }
  if (Try(segment, sink, broken)) return true;
  // Storage sometimes lies once.
  if (Try(segment, sink, broken)) {
    ++rereads_;
    return true;
  }
  if (broken->fault != FaultClass::kReadError) {
    broken_from_ = index_.FirstFrom(segment * segment_bytes_);
    broken_ = *broken;
  }
  return false;
}

bool InflateCursor::Try(std::uint64_t segment, SegmentSink* sink, Broken* broken) {
  const std::uint64_t wanted = index_.FirstFrom(segment * segment_bytes_);
  if (stream_ == nullptr || record_ > wanted) {
    if (record_ > 0) ++restarts_;
    stream_ = OpenStream(source_, file_bytes_, compression_);
    record_ = 0;
  }
  while (record_ <= wanted) {
    const std::uint64_t number = index_.At(record_).offset / segment_bytes_;
    const Stretch stretch = StretchOf(index_, number, segment_bytes_, largest_);
    const std::span<std::byte> room = sink->Room(number, stretch);
    std::uint64_t passed = stream_->Read(room);
    if (passed == room.size()) passed += stream_->Skip(stretch.bytes - room.size());
    inflated_ += passed;
    if (sink->Stale()) {
      return Break(FaultClass::kShardChanged, "it was cut or rewritten while the stream is open",
                   broken);
    }
    if (passed < stretch.bytes) {
      // The index saw this stretch whole.
      if (stream_->fault() == FaultClass::kNone) {
        return Break(FaultClass::kShardChanged,
                     "the inflated data is shorter than when it was indexed", broken);
      }
      return Break(stream_->fault(), stream_->detail(), broken);
    }
    record_ = stretch.end;
    if (!room.empty() || stretch.kept == 0) sink->Done(number);
  }
  return true;
}

bool InflateCursor::Break(FaultClass fault, std::string detail, Broken* broken) {
  *broken = {fault, std::move(detail)};
  stream_ = nullptr;
  return false;
}

}  // namespace stoker::io
