// LaneJournal: what each lane of a stream delivered and got back, one entry for each epoch of each
// life of a lane, kept while it happens.
//
// The file is mapped: an update is a store into the page cache, which a killed daemon leaves behind
// whole, and no system call stands between a batch and its trainer. Entries are a ring of
// kJournalEntries; the newest replace the oldest. docs/formats/state.md is the format.
//
// What a lane delivers is stored before its consumer is told, so a daemon that dies in between has
// one batch too many here, and the run that follows, which begins at the consumer's own position,
// cancels it.
//
// Ownership: owns the mapping; entries live as long as the journal. Thread-safety: Begin() and
//   Read() from any thread; an entry is updated by its lane alone, under the lane's lock.
// Blocking: Begin() may wait for the file system to give room; updates never do.
// Errors: kInternal with path and errno text. Where the disk is full no further entry is begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "shm/fd.h"
#include "shm/memfd.h"

namespace stoker::state {

inline constexpr std::uint64_t kJournalEntries = 32768;

// The layout in the file. What stands above `check` is written once, the rest as batches go.
struct JournalEntry {
  std::atomic<std::uint64_t> number;  // from 1; 0 while the entry is being written
  std::uint64_t run;                  // of the lane's life
  std::uint64_t epoch;
  std::uint64_t start_row;
  std::int64_t began_unix_ms;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t batch;
  std::uint32_t broadcast;
  std::uint32_t check;  // CRC32C of all above
  std::atomic<std::uint32_t> ended;
  std::atomic<std::uint64_t> delivered_row;
  std::atomic<std::uint64_t> released_row;
  std::atomic<std::uint64_t> rows;
  std::atomic<std::uint64_t> batches;
  std::atomic<std::uint64_t> skipped;
  std::atomic<std::uint64_t> replaced;
  std::atomic<std::uint32_t> consumers;  // attached now
  std::uint32_t reserved[3];
};
static_assert(sizeof(JournalEntry) == 128);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// An entry as it was read.
struct JournalRecord {
  std::uint64_t number = 0;
  std::uint64_t run = 0;
  std::uint64_t epoch = 0;
  std::uint64_t start_row = 0;
  std::int64_t began_unix_ms = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t batch = 0;
  bool broadcast = false;
  bool ended = false;
  std::uint64_t delivered_row = 0;
  std::uint64_t released_row = 0;
  std::uint64_t rows = 0;
  std::uint64_t batches = 0;
  std::uint64_t skipped = 0;
  std::uint64_t replaced = 0;
  std::uint32_t consumers = 0;
};

class LaneJournal {
 public:
  // Goes on with the journal at `path` where it was written for the same `plan` (a hash of what
  // decides which row is where), else begins a new one.
  static Result<std::shared_ptr<LaneJournal>> Open(const std::string& path, std::uint64_t plan);

  std::uint64_t NewRun() { return next_run_.fetch_add(1); }
  // Of `start` the fields up to `broadcast` count, but for number and time. nullptr where the disk
  // has no room.
  JournalEntry* Begin(const JournalRecord& start);

 private:
  LaneJournal(shm::Fd fd, shm::Mapping map) : fd_(std::move(fd)), map_(std::move(map)) {}
  bool MakeRoom(std::uint64_t number);

  const shm::Fd fd_;
  const shm::Mapping map_;
  std::atomic<std::uint64_t> next_run_{1};
  std::mutex mutex_;
  std::uint64_t next_number_ = 1;
  std::uint64_t room_ = 0;  // bytes of the file that the disk has promised
};

// The entries at `path`, oldest first; those that are not whole are left out. kNotFound where there
// is no journal.
Result<std::vector<JournalRecord>> ReadJournal(const std::string& path);

// For each record, the row up to which it counts after later runs went back behind it.
std::vector<std::uint64_t> EffectiveRows(const std::vector<JournalRecord>& records);

}  // namespace stoker::state
