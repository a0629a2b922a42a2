// Dataset: the shards of one source, frozen, indexed and open.
//
// Row ids name records by `shard << 40 | record`. A shard that is damaged in its structure holds
// one record more than its index under `keep_damage`: that last one is the damage itself, so it
// meets the bad-record policy at its place in the order, after the rows before it.
//
// Ownership: shared by a stream, its lanes and its workers; immutable once open.
// Blocking: Open() reads every shard that has no valid sidecar once, on several threads.
// Errors of Open(): what BuildManifest and LoadOrBuildIndex answer; kInvalidArgument where all
//   shards together hold no record; kDataLoss with all places where damage is not kept and
//   not skipped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/io/manifest.h"
#include "daemon/io/record_reader.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::pipeline {

struct DatasetOptions {
  std::string cache_dir;                // of index sidecars; empty: indexes stay in memory
  std::vector<std::string> data_roots;  // folders that files must lie under
  bool roots_required = false;          // refuse files outside them
  unsigned index_threads = 1;
  // Compressed shards: rows of a window (0: no windows), shards open at once, and, where given, the
  // most bytes of inflated data to hold.
  std::uint64_t window_rows = 0;
  std::uint64_t cycle = 1;
  std::uint64_t window_bytes = 0;
  // Resident copies of shards, in manifest order, while they fit in `resident_bytes`. kIfSmall:
  // only where all of them fit and records are so small that a read each would cost the most.
  enum class Resident { kNever, kIfSmall, kAlways } resident = Resident::kNever;
  std::uint64_t resident_bytes = 0;
  bool keep_damage = true;               // false under GLOBAL
  bool in_order = true;                  // shards are read front to back; false under GLOBAL
  std::uint64_t refuse_above_bytes = 0;  // 0: no limit
  std::vector<io::FrozenShard> frozen;   // not empty: the shards, whatever `files` match now
  std::atomic<std::uint64_t>* progress_bytes = nullptr;
  std::stop_token stop;
};

class Dataset {
 public:
  static Result<std::shared_ptr<const Dataset>> Open(const v1::Source& source,
                                                     const DatasetOptions& options);

  const io::Manifest& manifest() const { return manifest_; }
  // Records of each shard as plans count them, kept damage included.
  const std::vector<std::uint64_t>& plan_records() const { return plan_records_; }
  std::uint64_t records() const { return records_; }  // good ones, as indexed
  std::uint64_t longest() const { return longest_; }  // payload bytes
  std::uint64_t mean_bytes() const { return mean_bytes_; }
  // Whether seeking a position inflates a shard from its start.
  bool seeks_inflate() const { return seeks_inflate_; }
  std::uint64_t paths_hash() const { return manifest_.PathsHash(); }
  std::uint64_t data_hash() const { return data_hash_; }
  std::uint64_t index_bytes() const { return index_bytes_; }
  // The most that windows of segments take, and what the resident copies will, and do so far.
  std::uint64_t window_bytes() const { return window_bytes_; }
  std::uint64_t resident_bytes() const { return resident_bytes_; }
  std::uint32_t resident_shards() const { return resident_shards_; }
  std::uint64_t resident_filled() const;
  const std::vector<std::string>& notes() const { return notes_; }
  // Damage that was left out of the plan (GLOBAL with SKIP): counted by the stream when it opens.
  struct Place {
    std::uint32_t shard;
    io::Damage damage;
  };
  const std::vector<Place>& skipped_damage() const { return skipped_damage_; }

  const io::Shard& shard(std::uint32_t number) const { return *shards_[number]; }
  // The damage that stands as record `record` of `shard`, or nullptr for a stored record.
  const io::Damage* DamageAt(std::uint32_t shard, std::uint64_t record) const {
    return damaged_ ? StructuralDamageAt(shard, record) : nullptr;
  }
  // Appends records [first, first + count) of `shard`; all of them must be stored records.
  void Read(std::uint32_t shard, std::uint64_t first, std::uint32_t count,
            io::RecordBlock* block) const {
    shards_[shard]->Read(first, count, block);
  }
  // As Shard's, for any record of the plan.
  void PrefetchPlace(std::uint32_t shard, std::uint64_t record) const {
    if (!holds_ || DamageAt(shard, record) != nullptr) return;
    shards_[shard]->PrefetchPlace(record);
  }
  void Prefetch(std::uint32_t shard, std::uint64_t record, const io::RecordBlock& block) const {
    if (!holds_ || DamageAt(shard, record) != nullptr) return;
    shards_[shard]->Prefetch(record, block);
  }
  std::uint64_t bytes_read() const;
  std::uint64_t rereads() const;
  const std::string& path(std::uint32_t shard) const { return manifest_.shards[shard].path; }

 private:
  const io::Damage* StructuralDamageAt(std::uint32_t shard, std::uint64_t record) const;

  io::Manifest manifest_;
  std::unique_ptr<io::SegmentCache> segments_;
  std::vector<std::shared_ptr<io::Shard>> shards_;
  std::vector<std::uint64_t> plan_records_;
  std::vector<Place> skipped_damage_;
  std::vector<std::string> notes_;
  std::uint64_t records_ = 0;
  std::uint64_t longest_ = 0;
  std::uint64_t mean_bytes_ = 0;
  std::uint64_t data_hash_ = 0;
  std::uint64_t index_bytes_ = 0;
  std::uint64_t window_bytes_ = 0;
  std::uint64_t resident_bytes_ = 0;
  std::uint32_t resident_shards_ = 0;
  bool holds_ = false;  // a shard is held in memory or cached
  bool seeks_inflate_ = false;
  bool damaged_ = false;  // a shard is, in its structure
};

}  // namespace stoker::pipeline
