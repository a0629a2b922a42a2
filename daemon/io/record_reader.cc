#include "daemon/io/record_reader.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

constexpr std::uint64_t kReadBytes = 8 << 20;  // one pread covers at most so much
// Small ones make a first use in random order cheap; inflating is done in order anyhow.
constexpr std::uint64_t kPlainSegmentBytes = 64 << 10;
constexpr std::uint64_t kInflatedSegmentBytes = 512 << 10;
constexpr std::uint64_t kKeptOnTheWay = 8;  // segments passed that others may want soon
constexpr std::int64_t kLookEveryNs = 10'000'000;

std::int64_t CoarseNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Inflated segments into the cache.
class CacheSink final : public SegmentSink {
 public:
  CacheSink(SegmentCache* cache, const SegmentKey& wanted, std::function<bool()> stale)
      : cache_(*cache), wanted_(wanted), stale_(std::move(stale)) {}

  std::span<std::byte> Room(std::uint64_t segment, const Stretch& stretch) override {
    // Far ahead: what lies between would only push others out of the cache.
    if (segment + kKeptOnTheWay < wanted_.number) return {};
    making_ = std::make_shared<Segment>();
    making_->offset = stretch.offset;
    making_->size = static_cast<std::size_t>(stretch.kept);
    making_->bytes = std::make_unique_for_overwrite<std::byte[]>(making_->size);
    return {making_->bytes.get(), making_->size};
  }
  bool Stale() override { return stale_(); }
  void Done(std::uint64_t segment) override {
    if (making_ == nullptr) return;
    if (segment == wanted_.number) found_ = making_;
    cache_.Put({wanted_.shard, segment}, std::move(making_));
  }

  std::shared_ptr<const Segment> found() const { return found_; }

 private:
  SegmentCache& cache_;
  const SegmentKey wanted_;
  const std::function<bool()> stale_;
  std::shared_ptr<Segment> making_;
  std::shared_ptr<const Segment> found_;
};

// Inflated segments into a resident copy. What is ready already stays as it is.
class ResidentSink final : public SegmentSink {
 public:
  ResidentSink(ResidentCopy* copy, std::function<bool()> stale)
      : copy_(*copy), stale_(std::move(stale)) {}

  std::span<std::byte> Room(std::uint64_t segment, const Stretch& stretch) override {
    if (copy_.state(segment) == ResidentCopy::State::kReady) return {};
    kept_ = stretch.kept;
    return {copy_.data() + stretch.offset, static_cast<std::size_t>(kept_)};
  }
  bool Stale() override { return stale_(); }
  void Done(std::uint64_t segment) override {
    if (copy_.state(segment) == ResidentCopy::State::kReady) return;
    copy_.Settle(segment, ResidentCopy::State::kReady, kept_);
  }

 private:
  ResidentCopy& copy_;
  const std::function<bool()> stale_;
  std::uint64_t kept_ = 0;
};

}  // namespace

Result<std::shared_ptr<Shard>> Shard::Open(const ShardFile& file,
                                           std::shared_ptr<const ShardIndex> index,
                                           const ShardOptions& options) {
  auto source = FileSource::Open(file.path, file.root);
  if (!source.ok()) return source.status();
  auto identity = source->Identity();
  if (!identity.ok()) return Status(identity.status()).Annotate(file.path);
  if (file.identity.RewrittenAs(*identity)) {
    return Status(Code::kDataLoss, file.path +
                                       ": shard-changed: it was replaced, cut or rewritten while "
                                       "the stream opened");
  }
  return Over(std::make_unique<FileSource>(std::move(*source)), file, std::move(index), options);
}

Result<std::shared_ptr<Shard>> Shard::Over(std::unique_ptr<ByteSource> source,
                                           const ShardFile& file,
                                           std::shared_ptr<const ShardIndex> index,
                                           const ShardOptions& options) {
  std::shared_ptr<Shard> shard(new Shard());
  shard->file_ = file;
  shard->source_ = std::move(source);
  shard->index_ = std::move(index);
  shard->options_ = options;
  const bool plain = shard->plain();
  const bool resident = options.holding == Holding::kResident;
  shard->segment_bytes_ = plain ? kPlainSegmentBytes : kInflatedSegmentBytes;
  shard->largest_held_ = plain && !resident ? std::min(options.max_record_bytes, kPlainSegmentBytes)
                                            : options.max_record_bytes;
  if (options.holding == Holding::kCached) shard->cache_key_ = options.cache->NewShard();
  const std::uint64_t bytes = shard->index_->end_offset();
  if (resident && bytes > 0) {
    auto copy = ResidentCopy::Make(bytes, bytes / shard->segment_bytes_ + 1);
    if (!copy.ok()) return Status(copy.status()).Annotate(file.path);
    shard->copy_ = std::move(*copy);
  }
  if (!plain) {
    shard->cursor_ = std::make_unique<InflateCursor>(shard->source_.get(), file.identity.size,
                                                     file.compression, shard->index_.get(),
                                                     shard->segment_bytes_, shard->largest_held_);
  }
  return shard;
}

void Shard::Read(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
  if (options_.holding == Holding::kDirect) return ReadDirect(first, count, block);
  for (std::uint64_t record = first; record < first + count; ++record) ReadHeld(record, block);
}

void Shard::Prefetch(std::uint64_t record, const RecordBlock& block) const {
  constexpr std::uint64_t kMost = 512;
  constexpr std::uint64_t kLine = 64;
  if (options_.holding == Holding::kDirect) return;
  const Extent extent = index_->At(record);
  const std::byte* at = nullptr;
  if (copy_ != nullptr) {
    at = copy_->data() + extent.offset;
  } else {
    const Segment* segment = block.Pinned({cache_key_, extent.offset / segment_bytes_});
    if (segment == nullptr || extent.length > largest_held_) return;
    at = segment->bytes.get() + (extent.offset - segment->offset);
  }
  const std::uint64_t bytes = std::min(kMost, extent.length + kFramingBytes);
  for (std::uint64_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + line);
  // GCC takes a function that only prefetches for one without effect, and drops its calls.
  asm volatile("" : : "r"(at) : "memory");
}

void Shard::ReadDirect(std::uint64_t first, std::uint32_t count, RecordBlock* block) const {
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
  if (count == 1 && last.length > options_.max_record_bytes) {
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
    if (extent.length > options_.max_record_bytes) {
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
  if (options_.crc == CrcMode::kOff) return FaultClass::kNone;
  const RecordHeader header = ParseHeader(framed);
  if (!header.crc_good || header.length != extent.length) return FaultClass::kHeaderCrcMismatch;
  if (options_.crc == CrcMode::kLength) return FaultClass::kNone;
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
               std::to_string(options_.max_record_bytes);
      break;
    case FaultClass::kPayloadCrcMismatch:
      detail = plain() ? "the payload's checksum does not match, twice"
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

void Shard::ReadHeld(std::uint64_t record, RecordBlock* block) const {
  const Extent extent = index_->At(record);
  if (extent.length > options_.max_record_bytes) {
    return AppendFaulty(record, FaultClass::kRecordTooLarge, block);
  }
  Broken broken;
  const std::byte* framed = copy_ != nullptr                ? Resident(extent, &broken)
                            : extent.length > largest_held_ ? nullptr
                                                            : Cached(extent, block, &broken);
  if (framed == nullptr) {
    if (broken.fault == FaultClass::kNone) return ReadPlain(record, 1, block);
    return block->AppendFault(broken.fault, record, extent.offset, std::move(broken.detail));
  }
  const FaultClass fault = Check(framed, extent);
  if (fault == FaultClass::kNone) {
    return block->Append({{framed + kHeaderBytes, static_cast<std::size_t>(extent.length)},
                          FaultClass::kNone,
                          extent.offset,
                          record});
  }
  plain() ? ReadAgain(record, fault, block) : AppendFaulty(record, fault, block);
}

const std::byte* Shard::Resident(const Extent& extent, Broken* broken) const {
  using State = ResidentCopy::State;
  const std::uint64_t segment = extent.offset / segment_bytes_;
  if (copy_->state(segment) == State::kReady) return copy_->data() + extent.offset;
  if (!plain()) {
    ResidentSink sink(copy_.get(), [this] { return RewrittenLately(); });
    std::lock_guard lock(cursor_mutex_);
    const bool there =
        copy_->state(segment) == State::kReady || InflateLocked(segment, &sink, broken);
    return there ? copy_->data() + extent.offset : nullptr;
  }
  if (!copy_->Claim(segment)) {
    // Another worker is at it, or nobody can: the file has the record too.
    return copy_->state(segment) == State::kReady ? copy_->data() + extent.offset : nullptr;
  }
  const Stretch stretch = StretchOf(*index_, segment, segment_bytes_, largest_held_);
  const bool read = ReadStretch(stretch, copy_->data() + stretch.offset);
  copy_->Settle(segment, read ? State::kReady : State::kBroken, stretch.kept);
  return read ? copy_->data() + extent.offset : nullptr;
}

const std::byte* Shard::Cached(const Extent& extent, RecordBlock* block, Broken* broken) const {
  const SegmentKey key{cache_key_, extent.offset / segment_bytes_};
  const Segment* segment = block->Pinned(key);
  if (segment != nullptr) return segment->bytes.get() + (extent.offset - segment->offset);
  auto found = options_.cache->Get(key);
  if (found == nullptr) found = MakeSegment(key, broken);
  if (found == nullptr) return nullptr;
  const std::byte* framed = found->bytes.get() + (extent.offset - found->offset);
  if (block->Pin(key, found)) return framed;
  const auto copy = block->Allocate(static_cast<std::size_t>(extent.length + kFramingBytes));
  std::memcpy(copy.data(), framed, copy.size());
  return copy.data();
}

std::shared_ptr<const Segment> Shard::MakeSegment(const SegmentKey& key, Broken* broken) const {
  CacheSink sink(options_.cache, key, [this] { return RewrittenLately(); });
  if (!plain()) {
    std::lock_guard lock(cursor_mutex_);
    if (auto made = options_.cache->Get(key)) return made;  // another worker was faster
    return InflateLocked(key.number, &sink, broken) ? sink.found() : nullptr;
  }
  const Stretch stretch = StretchOf(*index_, key.number, segment_bytes_, largest_held_);
  if (!ReadStretch(stretch, sink.Room(key.number, stretch).data())) return nullptr;
  sink.Done(key.number);
  return sink.found();
}

// The bytes of a plain shard's segment. False where they are not whole: then each record is asked
// for by itself, and says what is wrong.
bool Shard::ReadStretch(const Stretch& stretch, std::byte* out) const {
  const auto got = source_->ReadAt(stretch.offset, {out, static_cast<std::size_t>(stretch.kept)});
  if (got.ok()) bytes_read_ += *got;
  return got.ok() && *got == stretch.kept && !RewrittenLately();
}

bool Shard::InflateLocked(std::uint64_t segment, SegmentSink* sink, Broken* broken) const {
  const std::uint64_t before = cursor_->bytes();
  const bool reached = cursor_->Reach(segment, sink, broken);
  bytes_read_ += cursor_->bytes() - before;
  if (!reached && broken->fault != FaultClass::kReadError && Rewritten()) {
    broken->fault = FaultClass::kShardChanged;
  }
  return reached;
}

std::uint64_t Shard::rereads() const {
  if (cursor_ == nullptr) return rereads_;
  std::lock_guard lock(cursor_mutex_);
  return rereads_ + cursor_->rereads();
}

std::uint64_t Shard::restarts() const {
  if (cursor_ == nullptr) return 0;
  std::lock_guard lock(cursor_mutex_);
  return cursor_->restarts();
}

}  // namespace stoker::io
