#include "daemon/io/record_reader.h"

#include <algorithm>

#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

constexpr std::size_t kChunkBytes = 256 << 10;
constexpr std::uint64_t kReadBytes = 8 << 20;       // one pread covers at most so much
constexpr std::uint64_t kSegmentBytes = 512 << 10;  // of inflated data, about

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
  while (chunk_ < chunks_.size() && chunks_[chunk_].size - used_ < bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const std::size_t size = std::max(bytes, kChunkBytes);
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }
  std::byte* at = chunks_[chunk_].bytes.get() + used_;
  used_ += bytes;
  return {at, bytes};
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
  if (identity->inode != file.identity.inode || identity->size < file.identity.size) {
    return Status(Code::kDataLoss, file.path +
                                       ": shard-changed: it was replaced or cut while the "
                                       "stream opened");
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
  if (shard->index_->records() > 0) {
    const std::uint64_t mean = shard->index_->end_offset() / shard->index_->records();
    shard->segment_records_ =
        std::max<std::uint64_t>(1, kSegmentBytes / std::max<std::uint64_t>(1, mean));
  }
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
  for (std::uint64_t record = first; record < first + count; ++record) {
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
      detail = "the payload's checksum does not match, twice";
      break;
    case FaultClass::kReadError:
      detail = "the storage answers an error, twice";
      break;
    default: {
      const auto now = source_->Identity();
      if (now.ok() &&
          (now->size != file_.identity.size || now->mtime_ns != file_.identity.mtime_ns)) {
        fault = FaultClass::kShardChanged;
      }
      detail = fault == FaultClass::kShardChanged
                   ? "it had " + std::to_string(file_.identity.size) +
                         " bytes when the stream opened and has " +
                         (now.ok() ? std::to_string(now->size) : std::string("an unknown number")) +
                         " now"
                   : "the length's checksum does not match, twice";
    }
  }
  block->AppendFault(fault, record, extent.offset, std::move(detail));
}

void Shard::ReadInflated(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
  std::shared_ptr<const InflatedCache::Segment> segment;
  std::uint64_t loaded = 0;
  for (std::uint64_t record = first; record < first + count; ++record) {
    const std::uint64_t number = record / segment_records_;
    std::string why;
    FaultClass fault = FaultClass::kNone;
    if (segment == nullptr || number != loaded) {
      segment = SegmentFor(number, &why, &fault);
      loaded = number;
    }
    const Extent extent = index_->At(record);
    if (segment == nullptr) {
      block->AppendFault(fault, record, extent.offset, why);
      continue;
    }
    if (extent.length > max_record_bytes_) {
      AppendFaulty(record, FaultClass::kRecordTooLarge, block);
      continue;
    }
    const std::byte* framed = segment->bytes.data() + (extent.offset - segment->offset);
    fault = Check(framed, extent);
    if (fault != FaultClass::kNone) {
      AppendFaulty(record, fault, block);
      continue;
    }
    const auto bytes = block->Allocate(static_cast<std::size_t>(extent.length));
    std::copy_n(framed + kHeaderBytes, extent.length, bytes.data());
    block->Append({bytes, FaultClass::kNone, extent.offset, record});
  }
}

std::shared_ptr<const InflatedCache::Segment> Shard::SegmentFor(std::uint64_t segment,
                                                                std::string* why,
                                                                FaultClass* fault) const {
  if (auto cached = cache_->Get({this, segment})) return cached;
  std::lock_guard lock(cursor_mutex_);
  if (auto cached = cache_->Get({this, segment})) return cached;  // another worker was faster
  if (cursor_ == nullptr || segment < cursor_segment_) {
    if (cursor_ != nullptr) ++restarts_;
    cursor_ = OpenStream(*source_, file_.identity.size, file_.compression);
    cursor_segment_ = 0;
  }
  while (true) {
    auto made = std::make_shared<InflatedCache::Segment>();
    made->first = cursor_segment_ * segment_records_;
    const std::uint64_t end_record = std::min(index_->records(), made->first + segment_records_);
    made->offset = index_->At(made->first).offset;
    const Extent last = index_->At(end_record - 1);
    made->bytes.resize(
        static_cast<std::size_t>(last.offset + last.length + kFramingBytes - made->offset));
    const std::size_t got = cursor_->Read(made->bytes);
    bytes_read_ += got;
    if (got < made->bytes.size()) {
      *fault = cursor_->fault() == FaultClass::kNone ? FaultClass::kShardChanged : cursor_->fault();
      *why = cursor_->detail();
      cursor_ = nullptr;
      return nullptr;
    }
    cache_->Put({this, cursor_segment_}, made);
    if (cursor_segment_++ == segment) return made;
  }
}

}  // namespace stoker::io
