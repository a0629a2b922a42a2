// What a stream keeps over a restart: what it is made of in its stored state, where its lanes were
// in its journal.
#include "config/spec_hash.h"
#include "daemon/base/log.h"
#include "daemon/stream/frozen_shards.h"
#include "daemon/stream/stream.h"

namespace stoker::stream {
namespace {

v1::StoredManifest ToManifest(const pipeline::Dataset& dataset, std::uint64_t epoch) {
  v1::StoredManifest manifest;
  manifest.set_epoch(epoch);
  for (const io::ShardFile& file : dataset.manifest().shards) {
    auto* shard = manifest.add_shard();
    shard->set_path(file.path);
    shard->set_size(file.identity.size);
    shard->set_compression(static_cast<std::uint32_t>(file.compression));
  }
  manifest.set_paths_hash(dataset.paths_hash());
  manifest.set_data_hash(dataset.data_hash());
  return manifest;
}

// Where a lane's life ended: its first step that was not given back.
Position LeftAt(const std::vector<state::JournalRecord>& records, std::uint64_t run) {
  Position at;
  for (const auto& record : records) {
    if (record.run != run) continue;
    if (!record.ended || record.released_row < record.delivered_row) {
      return {record.epoch, record.released_row};
    }
    at = {record.epoch + 1, 0};
  }
  return at;
}

// How many consumers a lane had when its daemon died.
std::uint32_t ConsumersOf(const std::vector<state::JournalRecord>& records, std::uint64_t run) {
  std::uint32_t consumers = 0;
  for (const auto& record : records) {
    if (record.run == run) consumers = record.consumers;
  }
  return consumers;
}

}  // namespace

std::vector<io::FrozenShard> FrozenShards(const v1::StoredManifest& manifest) {
  std::vector<io::FrozenShard> shards;
  for (const auto& shard : manifest.shard()) {
    const std::uint32_t compression = shard.compression();
    shards.push_back({shard.path(), shard.size(),
                      compression <= static_cast<std::uint32_t>(io::Compression::kZlib)
                          ? static_cast<io::Compression>(compression)
                          : io::Compression::kPlain});
  }
  return shards;
}

Status Stream::RestoreTables(const v1::StoredStream& stored, std::stop_token stop, Tables* last) {
  if (stored.manifest_size() == 0) return Status(Code::kDataLoss, "its state names no shards");
  for (const auto& manifest : stored.manifest()) {
    auto tables = OpenTables(seed_, stop, &manifest);
    if (!tables.ok()) return tables.status();
    if (tables->paths_hash != manifest.paths_hash() || tables->data_hash != manifest.data_hash()) {
      return Status(Code::kDataLoss,
                    "shard-changed: stream \"" + spec_.name() +
                        "\" was opened with other records than its shards hold now");
    }
    *last = *tables;
    std::lock_guard lock(data_mutex_);
    by_epoch_[manifest.epoch()] = std::move(*tables);
  }
  return Status();
}

void Stream::OpenJournal(bool restored) {
  const std::string path = environment_->state->JournalPath(spec_.name());
  const plan::Token identity = IdentityLocked();
  const std::uint64_t plan =
      plan::PlanId(identity.source_hash ^ std::uint64_t{identity.tensors_hash} << 32,
                   identity.order_hash, identity.paths_hash ^ identity.data_hash);
  auto journal = state::LaneJournal::Open(path, plan);
  if (!journal.ok()) {
    LogWarning("stream \"" + spec_.name() + "\": no journal: " + journal.status().message());
    return;
  }
  std::lock_guard lock(mutex_);
  journal_ = std::move(*journal);
  if (!restored) return;
  const auto records = state::ReadJournal(path);
  if (!records.ok()) return;
  std::map<std::uint32_t, std::uint64_t> last_run;
  for (const auto& record : *records) last_run[record.rank] = record.run;
  for (const auto& [rank, run] : last_run) seats_[rank].left_at = LeftAt(*records, run);
  if (broadcast() && !records->empty()) gather_ = ConsumersOf(*records, records->back().run);
}

v1::StoredStream Stream::ToStore() const {
  v1::StoredStream stored;
  *stored.mutable_spec() = spec_;
  stored.set_seed(seed_);
  stored.set_seed_drawn(!spec_.order().has_seed());
  stored.set_opener(opener_);
  stored.set_opened_by_attach(by_attach_);
  std::lock_guard lock(data_mutex_);
  if (spec_.source(0).refresh() == v1::Source::NEVER || by_epoch_.empty()) {
    *stored.add_manifest() = ToManifest(*tables_.data->dataset, 0);
    return stored;
  }
  for (const auto& [epoch, tables] : by_epoch_) {
    *stored.add_manifest() = ToManifest(*tables.data->dataset, epoch);
  }
  return stored;
}

// A stream that cannot be stored is served all the same: only a restart would miss it.
void Stream::Store(const v1::StoredStream& stored) {
  const Status status = environment_->state->Store(stored);
  if (status.ok()) return;
  LogLimited(LogLevel::kWarning, "state",
             "stream \"" + spec_.name() + "\" would not outlive a restart: " + status.message());
}

std::vector<std::uint64_t> Stream::OpenRuns() const {
  std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> runs;
  for (const auto& [rank, lane] : lanes_) runs.push_back(lane->run());
  return runs;
}

void Stream::Drain() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [rank, lane] : lanes_) lane->Drain();
}

bool Stream::HasReady() const {
  std::lock_guard lock(mutex_);
  for (const auto& [rank, lane] : lanes_) {
    if (lane->HasReady()) return true;
  }
  return false;
}

}  // namespace stoker::stream
