#include "daemon/io/shard_index.h"

#include <algorithm>
#include <bit>

#include "daemon/io/index_sidecar.h"

namespace stoker::io {
namespace {

constexpr std::uint64_t kHashStart = 0xcbf29ce484222325ull;  // FNV-1a, a CRC at a time
constexpr std::uint64_t kHashPrime = 0x100000001b3ull;
constexpr std::size_t kPadding = 8;
constexpr std::uint64_t kWidest = 57;  // an unaligned 8-byte load holds so many at any bit
constexpr std::uint64_t kProgressBytes = 8 << 20;
// Farther than any file reaches, and near enough that an offset always fits a packed value.
constexpr std::uint64_t kLargestShard = std::uint64_t{1} << 56;

Status ShardChanged(const std::string& path) {
  return Status(
      Code::kDataLoss,
      path + ": shard-changed: it was replaced, cut or rewritten while the stream opened");
}

}  // namespace

std::uint64_t ShardIndex::LongestWithin(std::uint64_t limit) const {
  if (longest_ <= limit) return longest_;
  std::uint64_t longest = 0;
  for (std::uint64_t record = 0; record < records_; ++record) {
    const std::uint64_t length = At(record).length;
    if (length <= limit) longest = std::max(longest, length);
  }
  return longest;
}

std::uint64_t ShardIndex::FirstFrom(std::uint64_t offset) const {
  std::uint64_t low = 0;
  std::uint64_t high = records_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (Offset(middle) < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

IndexBuilder::IndexBuilder() : index_(std::make_shared<ShardIndex>()) {
  index_->crc_hash_ = kHashStart;
}

void IndexBuilder::Add(std::uint64_t offset, std::uint64_t length, std::uint32_t stored_crc) {
  if (pending_count_ == ShardIndex::kBlockRecords) CloseBlock(offset);
  pending_[pending_count_++] = offset;
  ++index_->records_;
  index_->longest_ = std::max(index_->longest_, length);
  index_->crc_hash_ = (index_->crc_hash_ ^ stored_crc) * kHashPrime;
}

// Fits a line of the mean stride under the block's offsets and packs what is above it.
void IndexBuilder::CloseBlock(std::uint64_t next_offset) {
  if (pending_count_ == 0) return;
  ShardIndex::Block block = {};
  block.slope = (next_offset - pending_[0]) / pending_count_;
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::uint64_t j = 0; j < pending_count_; ++j) {
    const auto residual = static_cast<std::int64_t>(pending_[j] - pending_[0] - block.slope * j);
    least = std::min(least, residual);
    most = std::max(most, residual);
  }
  block.base = pending_[0] + static_cast<std::uint64_t>(least);
  block.bits = bit_count_;
  block.width = std::min<std::uint64_t>(
      kWidest,
      static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(most - least))));
  const std::uint64_t end = bit_count_ + block.width * pending_count_;
  index_->bits_.resize((end + 7) / 8 + kPadding, 0);
  for (std::uint64_t j = 0; block.width > 0 && j < pending_count_; ++j) {
    const std::uint64_t value = pending_[j] - block.base - block.slope * j;
    const std::uint64_t bit = bit_count_ + j * block.width;
    std::uint64_t word = 0;
    __builtin_memcpy(&word, index_->bits_.data() + bit / 8, sizeof(word));
    word |= value << (bit % 8);
    __builtin_memcpy(index_->bits_.data() + bit / 8, &word, sizeof(word));
  }
  bit_count_ = end;
  index_->blocks_.push_back(block);
  pending_count_ = 0;
}

std::shared_ptr<const ShardIndex> IndexBuilder::Finish(std::uint64_t end,
                                                       std::optional<Damage> damage) {
  CloseBlock(end);
  index_->bits_.resize((bit_count_ + 7) / 8 + kPadding, 0);
  index_->bits_.shrink_to_fit();
  index_->blocks_.shrink_to_fit();
  index_->end_offset_ = end;
  index_->damage_ = std::move(damage);
  return std::move(index_);
}

Result<std::shared_ptr<const ShardIndex>> BuildIndex(const ByteSource& source, std::uint64_t size,
                                                     Compression compression,
                                                     const std::string& path,
                                                     const IndexOptions& options) {
  if (size > kLargestShard) {
    return Status(Code::kInvalidArgument,
                  path + ": has " + std::to_string(size) + " bytes; a shard may have 2^56");
  }
  auto stream = OpenStream(source, size, compression);
  RecordScanner::Options scan;
  scan.payloads = false;
  scan.max_record_bytes = options.max_record_bytes;
  if (compression == Compression::kPlain) scan.stream_bytes = size;
  RecordScanner scanner(stream.get(), scan);
  IndexBuilder builder;
  RecordScanner::Record record;
  std::uint64_t reported = 0;
  const auto report = [&] {
    if (options.progress_bytes != nullptr) *options.progress_bytes += scanner.offset() - reported;
    reported = scanner.offset();
  };
  while (scanner.Next(&record)) {
    builder.Add(record.offset, record.length, record.stored_crc);
    if (scanner.offset() - reported < kProgressBytes) continue;
    if (options.stop.stop_requested()) return Status(Code::kCancelled, path + ": indexing stopped");
    report();
  }
  report();
  const auto& damage = scanner.damage();
  if (damage && damage->fault == FaultClass::kNotATfRecord) {
    return Status(Code::kDataLoss,
                  path + ": record 0, offset 0: not-a-tfrecord: " + damage->detail);
  }
  if (damage &&
      (damage->fault == FaultClass::kReadError || damage->fault == FaultClass::kShardChanged)) {
    return Status(Code::kDataLoss, path + ": record " + std::to_string(damage->record) +
                                       ", offset " + std::to_string(damage->offset) + ": " +
                                       std::string(FaultName(damage->fault)) + ": " +
                                       damage->detail);
  }
  return builder.Finish(scanner.offset(), damage);
}

Result<LoadedIndex> LoadOrBuildIndex(const ShardFile& file, const IndexOptions& options) {
  LoadedIndex loaded;
  if (!options.cache_dir.empty()) {
    loaded.index = Sidecar::Load(options.cache_dir, file, &loaded.note);
    if (loaded.index != nullptr) {
      loaded.origin = IndexOrigin::kLoaded;
      return loaded;
    }
  }
  auto source = FileSource::Open(file.path, file.root);
  if (!source.ok()) return source.status();
  auto index = BuildIndex(*source, file.identity.size, file.compression, file.path, options);
  // Looked at last, so that it speaks for all that was read.
  auto now = source->Identity();
  if (now.ok() && file.identity.RewrittenAs(*now)) return ShardChanged(file.path);
  if (!index.ok()) return index.status();
  loaded.index = std::move(*index);
  loaded.origin = IndexOrigin::kBuiltNotStored;
  if (options.cache_dir.empty()) return loaded;
  if (const Status stored = Sidecar::Store(options.cache_dir, file, *loaded.index); stored.ok()) {
    loaded.origin = IndexOrigin::kBuilt;
  } else {
    if (!loaded.note.empty()) loaded.note += "; ";
    loaded.note += file.path + ": its index stays in memory: " + stored.message();
  }
  return loaded;
}

}  // namespace stoker::io
