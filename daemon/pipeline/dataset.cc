#include "daemon/pipeline/dataset.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

namespace stoker::pipeline {
namespace {

io::Compression ToIo(v1::Compression compression) {
  switch (compression) {
    case v1::PLAIN:
      return io::Compression::kPlain;
    case v1::GZIP:
      return io::Compression::kGzip;
    case v1::ZLIB:
      return io::Compression::kZlib;
    default:
      return io::Compression::kAuto;
  }
}

io::CrcMode ToIo(v1::CrcMode crc) {
  switch (crc) {
    case v1::LENGTH:
      return io::CrcMode::kLength;
    case v1::OFF:
      return io::CrcMode::kOff;
    default:
      return io::CrcMode::kFull;
  }
}

std::string PlaceText(const std::string& path, const io::Damage& damage) {
  return path + ": record " + std::to_string(damage.record) + " at byte " +
         std::to_string(damage.offset) + ": " + std::string(FaultName(damage.fault)) +
         (damage.detail.empty() ? "" : " (" + damage.detail + ")");
}

// Indexes every shard; the error reported is that of the first shard in manifest order, however
// many threads there are.
Result<std::vector<io::LoadedIndex>> IndexAll(const io::Manifest& manifest,
                                              const io::IndexOptions& index_options,
                                              unsigned threads) {
  const std::size_t n = manifest.shards.size();
  std::vector<std::optional<Result<io::LoadedIndex>>> found(n);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> first_error{n};
  const auto work = [&] {
    while (true) {
      const std::size_t i = next.fetch_add(1);
      if (i >= n || i > first_error.load() || index_options.stop.stop_requested()) return;
      found[i].emplace(io::LoadOrBuildIndex(manifest.shards[i], index_options));
      if (found[i]->ok()) continue;
      std::size_t seen = first_error.load();
      while (i < seen && !first_error.compare_exchange_weak(seen, i)) {
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned t = 1; t < std::min<std::size_t>(threads, n); ++t) helpers.emplace_back(work);
    work();
  }
  if (index_options.stop.stop_requested()) {
    return Status(Code::kCancelled, "indexing was stopped: the stream is being closed");
  }
  std::vector<io::LoadedIndex> indexes;
  indexes.reserve(n);
  for (auto& result : found) {
    if (!result->ok()) return result->status();
    indexes.push_back(std::move(**result));
  }
  return indexes;
}

// How each shard's bytes are held, and the most that this takes.
struct HoldingPlan {
  std::vector<io::Holding> holdings;
  std::uint64_t window_bytes = 0;  // of the segment cache
  std::uint64_t resident_bytes = 0;
};

constexpr std::uint64_t kFraming = 16;
// Records above this gain nothing from sharing a read with their neighbours.
constexpr std::uint64_t kSmallRecord = 4096;

// Two windows of compressed shards (one being finished, one begun) and a segment of each open shard
// must fit: what falls out is inflated again from its shard's start.
std::uint64_t InflatedWindow(std::uint64_t all, std::uint64_t longest,
                             const DatasetOptions& options) {
  constexpr std::uint64_t kFloor = 64 << 20;
  constexpr std::uint64_t kSegment = 1 << 20;
  if (options.window_bytes > 0) return std::min(all, options.window_bytes);
  // Windows of more rows than the shards can hold are no larger than the shards.
  const std::uint64_t rows = std::min(options.window_rows, all / kFraming);
  const std::uint64_t one = longest + kFraming;
  const std::uint64_t window = rows > 0 && one > all / rows ? all : rows * one;
  return std::min(all, std::max(kFloor, 2 * window + options.cycle * 2 * kSegment));
}

// Two windows of plain shards, by their mean: what falls out is one read.
std::uint64_t PlainWindow(std::uint64_t all, std::uint64_t mean, const DatasetOptions& options) {
  constexpr std::uint64_t kMost = 256 << 20;
  constexpr std::uint64_t kSegment = 128 << 10;
  const std::uint64_t rows = std::min(options.window_rows, kMost / kFraming);
  return std::min({all, kMost, 2 * rows * (mean + kFraming) + options.cycle * 2 * kSegment});
}

HoldingPlan PlanHolding(const io::Manifest& manifest, const std::vector<io::LoadedIndex>& indexes,
                        std::uint64_t max_record_bytes, const DatasetOptions& options) {
  constexpr std::uint64_t kSegment = 1 << 20;
  HoldingPlan plan;
  std::uint64_t all = 0;
  std::uint64_t records = 0;
  for (const auto& loaded : indexes) {
    all += loaded.index->end_offset();
    records += loaded.index->records();
  }
  const std::uint64_t mean = records == 0 ? 0 : all / records;
  const bool keep = options.resident == DatasetOptions::Resident::kAlways ||
                    (options.resident == DatasetOptions::Resident::kIfSmall &&
                     all <= options.resident_bytes && mean <= kSmallRecord);
  std::uint64_t inflated = 0;
  std::uint64_t plain = 0;
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    const std::uint64_t bytes = indexes[i].index->end_offset();
    const bool compressed = manifest.shards[i].compression != io::Compression::kPlain;
    if (keep && plan.resident_bytes + bytes <= options.resident_bytes) {
      plan.resident_bytes += bytes;
      plan.holdings.push_back(io::Holding::kResident);
    } else if (compressed) {
      plan.holdings.push_back(io::Holding::kCached);
      inflated += bytes + kSegment;
      longest = std::max(longest, indexes[i].index->LongestWithin(max_record_bytes));
    } else if (options.window_rows > 0 && mean <= kSmallRecord) {
      plan.holdings.push_back(io::Holding::kCached);
      plain += bytes;
    } else {
      plan.holdings.push_back(io::Holding::kDirect);
    }
  }
  plan.window_bytes =
      InflatedWindow(inflated, longest, options) + PlainWindow(plain, mean, options);
  return plan;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::Open(const v1::Source& source,
                                                     const DatasetOptions& options) {
  auto dataset = std::make_shared<Dataset>();
  io::ManifestOptions manifest_options;
  manifest_options.files.assign(source.files().begin(), source.files().end());
  manifest_options.compression = ToIo(source.compression());
  manifest_options.data_roots = options.data_roots;
  manifest_options.roots_required = options.roots_required;
  auto manifest = options.frozen.empty() ? io::BuildManifest(manifest_options)
                                         : io::ReopenManifest(options.frozen, manifest_options);
  if (!manifest.ok()) return manifest.status();
  dataset->manifest_ = std::move(*manifest);
  dataset->notes_ = dataset->manifest_.notes;

  io::IndexOptions index_options;
  if (source.has_max_record_bytes()) index_options.max_record_bytes = source.max_record_bytes();
  index_options.cache_dir = options.cache_dir;
  index_options.progress_bytes = options.progress_bytes;
  index_options.stop = options.stop;
  auto indexes = IndexAll(dataset->manifest_, index_options, options.index_threads);
  if (!indexes.ok()) return indexes.status();

  const HoldingPlan holding =
      PlanHolding(dataset->manifest_, *indexes, index_options.max_record_bytes, options);
  dataset->window_bytes_ = holding.window_bytes;
  dataset->resident_bytes_ = holding.resident_bytes;
  dataset->segments_ = std::make_unique<io::SegmentCache>(holding.window_bytes);

  std::vector<Place> damages;
  std::uint64_t payload_bytes = 0;
  std::uint64_t data_hash = 0xcbf29ce484222325ull;  // FNV-1a over counts and per-shard hashes
  const auto mix = [&data_hash](std::uint64_t value) {
    for (int i = 0; i < 8; ++i)
      data_hash = (data_hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3ull;
  };
  for (std::uint32_t i = 0; i < dataset->manifest_.shards.size(); ++i) {
    auto& loaded = (*indexes)[i];
    const auto& file = dataset->manifest_.shards[i];
    if (!loaded.note.empty()) dataset->notes_.push_back(loaded.note);
    const auto& index = *loaded.index;
    dataset->records_ += index.records();
    dataset->longest_ =
        std::max(dataset->longest_, index.LongestWithin(index_options.max_record_bytes));
    dataset->index_bytes_ += index.memory_bytes();
    payload_bytes += index.end_offset() - std::min(index.end_offset(), 16 * index.records());
    mix(index.records());
    mix(index.crc_hash());
    if (index.damage()) damages.push_back({i, *index.damage()});
    dataset->damaged_ = dataset->damaged_ || index.damage();
    dataset->plan_records_.push_back(index.records() +
                                     (index.damage() && options.keep_damage ? 1 : 0));
    io::ShardOptions shard_options;
    shard_options.crc = ToIo(source.crc());
    shard_options.max_record_bytes = index_options.max_record_bytes;
    shard_options.holding = holding.holdings[i];
    shard_options.cache = dataset->segments_.get();
    shard_options.in_order = options.in_order;
    dataset->holds_ = dataset->holds_ || shard_options.holding != io::Holding::kDirect;
    if (shard_options.holding == io::Holding::kResident) {
      ++dataset->resident_shards_;
    } else if (file.compression != io::Compression::kPlain) {
      dataset->seeks_inflate_ = true;
    }
    auto shard = io::Shard::Open(file, loaded.index, shard_options);
    if (!shard.ok()) return shard.status();
    dataset->shards_.push_back(std::move(*shard));
  }
  dataset->data_hash_ = data_hash == 0 ? 1 : data_hash;
  if (dataset->records_ > 0) dataset->mean_bytes_ = payload_bytes / dataset->records_;

  const bool refused = !options.keep_damage && source.on_bad_record() == v1::FAIL;
  if (!damages.empty() && (refused || dataset->records_ == 0)) {
    std::string text;
    for (const Place& place : damages) {
      text += (text.empty() ? "" : "; ") + PlaceText(dataset->path(place.shard), place.damage);
    }
    return Status(Code::kDataLoss,
                  text + (refused ? "; repair these files, or set on_bad_record: SKIP to go on "
                                    "with the records before the damage"
                                  : ""));
  }
  if (dataset->records_ == 0) {
    return Status(Code::kInvalidArgument,
                  "zero-records: " + std::to_string(dataset->shards_.size()) +
                      " files were found and none holds a record; check source.files");
  }
  if (!options.keep_damage) dataset->skipped_damage_ = std::move(damages);
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

const io::Damage* Dataset::StructuralDamageAt(std::uint32_t shard, std::uint64_t record) const {
  const auto& index = shards_[shard]->index();
  return record < index.records() ? nullptr : &*index.damage();
}

std::uint64_t Dataset::bytes_read() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->bytes_read();
  return sum;
}

std::uint64_t Dataset::resident_filled() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->resident_bytes();
  return sum;
}

std::uint64_t Dataset::rereads() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->rereads();
  return sum;
}

}  // namespace stoker::pipeline
