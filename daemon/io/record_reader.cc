#include "daemon/io/record_reader.h"

#include <time.h>

#include <algorithm>

#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

constexpr std::size_t kChunkBytes = 256 << 10;
constexpr std::uint64_t kReadBytes = 8 << 20;       // one pread covers at most so much
constexpr std::uint64_t kSegmentBytes = 512 << 10;  // of inflated data, about
constexpr std::uint64_t kKeptOnTheWay = 8;          // segments passed that others may want soon
constexpr std::int64_t kLookEveryNs = 10'000'000;

std::int64_t CoarseNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

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

std::shared_ptr<const InflatedCache::Segment> InflatedCache::Get(const Key& key) {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, it->second.use);
  return it->second.segment;
}

void InflatedCache::Put(const Key& key, std::shared_ptr<const Segment> segment) {
  std::lock_guard lock(mutex_);
  if (entries_.contains(key)) return;
  bytes_ += segment->bytes.size();
  uses_.push_front(key);
  entries_[key] = {std::move(segment), uses_.begin()};
  while (bytes_ > budget_ && entries_.size() > 1) {
    const auto oldest = entries_.find(uses_.back());
    bytes_ -= oldest->second.segment->bytes.size();
    entries_.erase(oldest);
    uses_.pop_back();
  }
}

std::uint64_t InflatedCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

Result<std::shared_ptr<Shard>> Shard::Open(const ShardFile& file,
                                           std::shared_ptr<const ShardIndex> index, CrcMode crc,
                                           InflatedCache* cache, std::uint64_t max_record_bytes) {
  auto source = FileSource::Open(file.path, file.root);
  if (!source.ok()) return source.status();
  auto identity = source->Identity();
  if (!identity.ok()) return Status(identity.status()).Annotate(file.path);
  if (file.identity.RewrittenAs(*identity)) {
    return Status(Code::kDataLoss, file.path +
                                       ": shard-changed: it was replaced, cut or rewritten while "
                                       "the stream opened");
  }
  return Over(std::make_unique<FileSource>(std::move(*source)), file, std::move(index), crc, cache,
              max_record_bytes);
}

std::shared_ptr<Shard> Shard::Over(std::unique_ptr<ByteSource> source, const ShardFile& file,
                                   std::shared_ptr<const ShardIndex> index, CrcMode crc,
                                   InflatedCache* cache, std::uint64_t max_record_bytes) {
  std::shared_ptr<Shard> shard(new Shard());
  shard->file_ = file;
  shard->source_ = std::move(source);
  shard->index_ = std::move(index);
  shard->crc_ = crc;
  shard->cache_ = cache;
  shard->max_record_bytes_ = max_record_bytes;
  if (cache != nullptr) shard->cache_key_ = cache->NewShard();
  return shard;
}

void Shard::Read(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
  if (file_.compression != Compression::kPlain) return ReadInflated(first, count, block);
  while (count > 0) {
    // As many records as one read covers, at least one.
    std::uint32_t n = count;
    const std::uint64_t begin = index_->At(first).offset;
    const auto end = [&](std::uint32_t k) {
      const Extent last = index_->At(first + k - 1);
      return last.offset + last.length + kFramingBytes;
    };
    while (n > 1 && end(n) - begin > kReadBytes) n /= 2;
    ReadPlain(first, n, block);
    first += n;
    count -= n;
  }
}

void Shard::ReadPlain(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
  const std::uint64_t begin = index_->At(first).offset;
  const Extent last = index_->At(first + count - 1);
  if (count == 1 && last.length > max_record_bytes_) {
    return AppendFaulty(first, FaultClass::kRecordTooLarge, block);
  }
  const auto bytes =
      block->Allocate(static_cast<std::size_t>(last.offset + last.length + kFramingBytes - begin));
  const auto got = source_->ReadAt(begin, bytes);
  const std::size_t have = got.ok() ? *got : 0;
  bytes_read_ += have;
  const bool rewritten = RewrittenLately();
  for (std::uint64_t record = first; record < first + count; ++record) {
    if (rewritten) {
      AppendFaulty(record, FaultClass::kShardChanged, block);
      continue;
    }
    const Extent extent = index_->At(record);
    const std::uint64_t at = extent.offset - begin;
    FaultClass fault = FaultClass::kReadError;
    if (extent.length > max_record_bytes_) {
      AppendFaulty(record, FaultClass::kRecordTooLarge, block);
      continue;
    }
    if (got.ok()) {
      fault = at + extent.length + kFramingBytes > have ? FaultClass::kShardChanged
                                                        : Check(bytes.data() + at, extent);
    }
    if (fault != FaultClass::kNone) {
      ReadAgain(record, fault, block);
      continue;
    }
    block->Append({bytes.subspan(at + kHeaderBytes, extent.length), FaultClass::kNone,
                   extent.offset, record});
  }
}

FaultClass Shard::Check(const std::byte* framed, const Extent& extent) const {
  if (crc_ == CrcMode::kOff) return FaultClass::kNone;
  const RecordHeader header = ParseHeader(framed);
  if (!header.crc_good || header.length != extent.length) return FaultClass::kHeaderCrcMismatch;
  if (crc_ == CrcMode::kLength) return FaultClass::kNone;
  const std::byte* payload = framed + kHeaderBytes;
  const std::uint32_t stored = LoadLittle<std::uint32_t>(payload + extent.length);
  return MaskCrc(Crc32c({payload, extent.length})) == stored ? FaultClass::kNone
                                                             : FaultClass::kPayloadCrcMismatch;
}

// One more look before a record is given up.
void Shard::ReadAgain(std::uint64_t record, FaultClass fault, RecordBlock* block) const {
  const Extent extent = index_->At(record);
  const auto bytes = block->Allocate(static_cast<std::size_t>(extent.length + kFramingBytes));
  const auto got = source_->ReadAt(extent.offset, bytes);
  if (got.ok() && *got == bytes.size()) {
    fault = Check(bytes.data(), extent);
    if (fault == FaultClass::kNone) {
      ++rereads_;
      return block->Append(
          {bytes.subspan(kHeaderBytes, extent.length), fault, extent.offset, record});
    }
  } else {
    fault = got.ok() ? FaultClass::kShardChanged : FaultClass::kReadError;
  }
  if (fault == FaultClass::kPayloadCrcMismatch && Rewritten()) fault = FaultClass::kShardChanged;
  AppendFaulty(record, fault, block);
}

void Shard::AppendFaulty(std::uint64_t record, FaultClass fault, RecordBlock* block) const {
  const Extent extent = index_->At(record);
  std::string detail;
  switch (fault) {
    case FaultClass::kRecordTooLarge:
      detail = std::to_string(extent.length) + " bytes, max_record_bytes is " +
               std::to_string(max_record_bytes_);
      break;
    case FaultClass::kPayloadCrcMismatch:
      detail = file_.compression == Compression::kPlain
                   ? "the payload's checksum does not match, twice"
                   : "the payload's checksum does not match";
      break;
    case FaultClass::kReadError:
      detail = "the storage answers an error, twice";
      break;
    default: {
      const auto now = source_->Identity();
      if (now.ok() && *now != file_.identity) fault = FaultClass::kShardChanged;
      if (fault != FaultClass::kShardChanged) {
        detail = "the length's checksum does not match, twice";
      } else if (now.ok() && now->size == file_.identity.size) {
        detail = "it was rewritten: its size is " + std::to_string(now->size) +
                 " still, its modification time is not what it was when the stream opened";
      } else {
        detail = "it had " + std::to_string(file_.identity.size) +
                 " bytes when the stream opened and has " +
                 (now.ok() ? std::to_string(now->size) : std::string("an unknown number")) + " now";
      }
    }
  }
  block->AppendFault(fault, record, extent.offset, std::move(detail));
}

bool Shard::Rewritten() const {
  const auto now = source_->Identity();
  if (now.ok() && file_.identity.RewrittenAs(*now)) rewritten_ = true;
  return rewritten_;
}

bool Shard::RewrittenLately() const {
  const std::int64_t now = CoarseNow();
  if (now - looked_at_ns_.load(std::memory_order_relaxed) < kLookEveryNs) {
    return rewritten_.load(std::memory_order_relaxed);
  }
  looked_at_ns_.store(now, std::memory_order_relaxed);
  return Rewritten();
}

void Shard::ReadInflated(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
  SegmentPtr segment;
  std::uint64_t end = first;  // of the records that `segment`, or its absence, speaks for
  Broken broken;
  for (std::uint64_t record = first; record < first + count; ++record) {
    const Extent extent = index_->At(record);
    if (extent.length > max_record_bytes_) {
      AppendFaulty(record, FaultClass::kRecordTooLarge, block);
      continue;
    }
    if (record >= end) {
      segment = SegmentOf(record, &broken);
      end = index_->FirstFrom((extent.offset / kSegmentBytes + 1) * kSegmentBytes);
    }
    if (segment == nullptr) {
      block->AppendFault(broken.fault, record, extent.offset, broken.detail);
      continue;
    }
    const std::byte* framed = segment->bytes.data() + (extent.offset - segment->offset);
    const FaultClass fault = Check(framed, extent);
    if (fault != FaultClass::kNone) {
      AppendFaulty(record, fault, block);
      continue;
    }
    const auto bytes = block->Allocate(static_cast<std::size_t>(extent.length));
    std::copy_n(framed + kHeaderBytes, extent.length, bytes.data());
    block->Append({bytes, FaultClass::kNone, extent.offset, record});
  }
}

// A segment holds the records whose headers lie in its kSegmentBytes of the inflated stream.
Shard::SegmentPtr Shard::SegmentOf(std::uint64_t record, Broken* broken) const {
  const std::uint64_t segment = index_->At(record).offset / kSegmentBytes;
  if (auto cached = cache_->Get({cache_key_, segment})) return cached;
  std::lock_guard lock(cursor_mutex_);
  if (auto cached = cache_->Get({cache_key_, segment})) return cached;  // another worker was faster
  const std::uint64_t begin = index_->FirstFrom(segment * kSegmentBytes);
  const std::uint64_t end = index_->FirstFrom((segment + 1) * kSegmentBytes);
  if (begin >= broken_from_) {
    *broken = broken_;
    return nullptr;
  }
  auto made = Inflate(segment, begin, end, broken);
  if (made == nullptr) {
    // Storage sometimes lies once. What fails twice stays broken, unless it could not be read.
    cursor_ = nullptr;
    made = Inflate(segment, begin, end, broken);
    if (made != nullptr) {
      ++rereads_;
    } else if (broken->fault != FaultClass::kReadError) {
      broken_from_ = begin;
      broken_ = *broken;
    }
  }
  return made;
}

Shard::SegmentPtr Shard::Inflate(std::uint64_t segment, std::uint64_t begin, std::uint64_t end,
                                 Broken* broken) const {
  if (cursor_ == nullptr || cursor_record_ > begin) {
    if (cursor_record_ > 0) ++restarts_;
    cursor_ = OpenStream(*source_, file_.identity.size, file_.compression);
    cursor_record_ = 0;
  }
  // Far ahead: what lies between would only push others out of the cache.
  if (segment > kKeptOnTheWay) {
    const std::uint64_t near = index_->FirstFrom((segment - kKeptOnTheWay) * kSegmentBytes);
    if (cursor_record_ < near) {
      const std::uint64_t bytes = index_->At(near).offset - index_->At(cursor_record_).offset;
      const std::uint64_t passed = cursor_->Skip(bytes);
      bytes_read_ += passed;
      if (passed < bytes) {
        BrokenHere(broken);
        return nullptr;
      }
      cursor_record_ = near;
    }
  }
  while (cursor_record_ < begin) {
    const std::uint64_t passing = index_->At(cursor_record_).offset / kSegmentBytes;
    const std::uint64_t stop = index_->FirstFrom((passing + 1) * kSegmentBytes);
    auto made = InflateHere(cursor_record_, stop, broken);
    if (made == nullptr) return nullptr;
    cache_->Put({cache_key_, passing}, std::move(made));
  }
  auto made = InflateHere(begin, end, broken);
  if (made != nullptr) cache_->Put({cache_key_, segment}, made);
  return made;
}

Shard::SegmentPtr Shard::InflateHere(std::uint64_t begin, std::uint64_t end, Broken* broken) const {
  auto made = std::make_shared<InflatedCache::Segment>();
  made->first = begin;
  made->offset = index_->At(begin).offset;
  // Only the last record can be longer than a segment. Over the limit it is never delivered, and
  // gets no room.
  const Extent last = index_->At(end - 1);
  const std::uint64_t behind = last.offset + last.length + kFramingBytes;
  const std::uint64_t kept = last.length > max_record_bytes_ ? last.offset : behind;
  made->bytes.resize(static_cast<std::size_t>(kept - made->offset));
  const std::uint64_t got = cursor_->Read(made->bytes);
  const std::uint64_t passed = got == made->bytes.size() ? cursor_->Skip(behind - kept) : 0;
  bytes_read_ += got + passed;
  if (got + passed < behind - made->offset) {
    BrokenHere(broken);
    return nullptr;
  }
  cursor_record_ = end;
  if (RewrittenLately()) {
    *broken = {FaultClass::kShardChanged, "it was cut or rewritten while the stream is open"};
    return nullptr;
  }
  return made;
}

void Shard::BrokenHere(Broken* broken) const {
  broken->fault = cursor_->fault();
  broken->detail = cursor_->detail();
  // The index saw this stretch whole.
  if (broken->fault == FaultClass::kNone) {
    *broken = {FaultClass::kShardChanged, "the inflated data is shorter than when it was indexed"};
  } else if (broken->fault != FaultClass::kReadError && Rewritten()) {
    broken->fault = FaultClass::kShardChanged;
  }
  cursor_ = nullptr;
}

}  // namespace stoker::io
