#include "daemon/state/lane_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "daemon/base/crc32c.h"
#include "daemon/base/log.h"

namespace stoker::state {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'O', 'K', 'J', 'R', 'N', 'L'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::uint64_t kRoomStep = 64 << 10;
constexpr std::uint64_t kFileBytes = kHeaderBytes + kJournalEntries * sizeof(JournalEntry);

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t entry_bytes;
  std::uint64_t entries;
  std::uint64_t plan;
  std::uint32_t check;  // CRC32C of all above
  std::uint32_t reserved;
};
static_assert(sizeof(Header) == 40);

Status FromErrno(const std::string& what, int error) {
  return Status(Code::kInternal, what + ": " + std::strerror(error));
}

Header MakeHeader(std::uint64_t plan) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.entry_bytes = sizeof(JournalEntry);
  header.entries = kJournalEntries;
  header.plan = plan;
  header.check = Crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, check)));
  return header;
}

// Of the written-once part, with the number that the entry will have.
std::uint32_t Check(const JournalRecord& r) {
  const std::uint64_t words[] = {
      r.number,
      r.run,
      r.epoch,
      r.start_row,
      static_cast<std::uint64_t>(r.began_unix_ms),
      std::uint64_t{r.rank} | std::uint64_t{r.world_size} << 32,
      std::uint64_t{r.batch} | std::uint64_t{r.broadcast ? 1u : 0u} << 32};
  return Crc32c(std::as_bytes(std::span(words)));
}

JournalRecord Copy(const JournalEntry& e) {
  JournalRecord r;
  r.number = e.number.load(std::memory_order_acquire);  // with the store in Begin()
  r.run = e.run;
  r.epoch = e.epoch;
  r.start_row = e.start_row;
  r.began_unix_ms = e.began_unix_ms;
  r.rank = e.rank;
  r.world_size = e.world_size;
  r.batch = e.batch;
  r.broadcast = e.broadcast != 0;
  r.ended = e.ended.load(std::memory_order_relaxed) != 0;
  r.delivered_row = e.delivered_row.load(std::memory_order_relaxed);
  r.released_row = e.released_row.load(std::memory_order_relaxed);
  r.rows = e.rows.load(std::memory_order_relaxed);
  r.batches = e.batches.load(std::memory_order_relaxed);
  r.skipped = e.skipped.load(std::memory_order_relaxed);
  r.replaced = e.replaced.load(std::memory_order_relaxed);
  r.consumers = e.consumers.load(std::memory_order_relaxed);
  return r;
}

bool Whole(const JournalEntry& e, const JournalRecord& r) {
  return r.number != 0 && e.check == Check(r) && r.delivered_row >= r.start_row &&
         r.released_row >= r.start_row && r.released_row <= r.delivered_row;
}

std::vector<JournalRecord> Collect(std::span<const JournalEntry> entries) {
  std::vector<JournalRecord> records;
  for (const JournalEntry& entry : entries) {
    const JournalRecord record = Copy(entry);
    if (Whole(entry, record)) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return records;
}

}  // namespace

Result<std::shared_ptr<LaneJournal>> LaneJournal::Open(const std::string& path,
                                                       std::uint64_t plan) {
  shm::Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return FromErrno("open " + path, errno);
  const Header wanted = MakeHeader(plan);
  Header found = {};
  const bool ours = shm::FileBytes(fd.get()) == kFileBytes &&
                    pread(fd.get(), &found, sizeof(found), 0) == sizeof(found) &&
                    std::memcmp(&found, &wanted, sizeof(found)) == 0;
  if (!ours) {
    // Room before the header: a header stands only where its page can be written.
    if (ftruncate(fd.get(), 0) != 0 || ftruncate(fd.get(), kFileBytes) != 0) {
      return FromErrno("truncate " + path, errno);
    }
    if (const int error = posix_fallocate(fd.get(), 0, kHeaderBytes); error != 0) {
      return FromErrno("allocate " + path, error);
    }
    if (pwrite(fd.get(), &wanted, sizeof(wanted), 0) != sizeof(wanted)) {
      return FromErrno("write " + path, errno);
    }
  }
  shm::Mapping map = shm::Mapping::Map(fd.get(), kFileBytes, true);
  if (!map.valid()) return FromErrno("map " + path, errno);
  std::shared_ptr<LaneJournal> journal(new LaneJournal(std::move(fd), std::move(map)));
  if (ours) {
    auto records = ReadJournal(path);
    if (!records.ok()) return records.status();
    for (const JournalRecord& record : *records) {
      journal->next_number_ = record.number + 1;
      journal->next_run_ = std::max(journal->next_run_.load(), record.run + 1);
    }
  }
  return journal;
}

bool LaneJournal::MakeRoom(std::uint64_t number) {
  const std::uint64_t place = (number - 1) % kJournalEntries;
  const std::uint64_t end = kHeaderBytes + (place + 1) * sizeof(JournalEntry);
  if (end <= room_) return true;
  const std::uint64_t until = std::min(kFileBytes, (end / kRoomStep + 1) * kRoomStep);
  // A store to a hole that the disk cannot fill would be a SIGBUS.
  const int error = posix_fallocate(fd_.get(), 0, static_cast<off_t>(until));
  if (error == 0) {
    room_ = until;
    return true;
  }
  LogLimited(LogLevel::kWarning, "journal",
             std::string("state: the journal goes no further: ") + std::strerror(error));
  return false;
}

JournalEntry* LaneJournal::Begin(const JournalRecord& start) {
  JournalRecord record = start;
  record.began_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  std::lock_guard lock(mutex_);
  if (!MakeRoom(next_number_)) return nullptr;
  record.number = next_number_++;
  auto* entry = reinterpret_cast<JournalEntry*>(map_.data() + kHeaderBytes) +
                (record.number - 1) % kJournalEntries;
  entry->number.store(0, std::memory_order_release);
  entry->run = record.run;
  entry->epoch = record.epoch;
  entry->start_row = record.start_row;
  entry->began_unix_ms = record.began_unix_ms;
  entry->rank = record.rank;
  entry->world_size = record.world_size;
  entry->batch = record.batch;
  entry->broadcast = record.broadcast ? 1 : 0;
  entry->check = Check(record);
  entry->ended.store(0, std::memory_order_relaxed);
  entry->delivered_row.store(record.start_row, std::memory_order_relaxed);
  entry->released_row.store(record.start_row, std::memory_order_relaxed);
  for (auto* count : {&entry->rows, &entry->batches, &entry->skipped, &entry->replaced}) {
    count->store(0, std::memory_order_relaxed);
  }
  entry->consumers.store(record.consumers, std::memory_order_relaxed);
  // Whoever reads the number sees the rest (with the load in Copy()).
  entry->number.store(record.number, std::memory_order_release);
  return entry;
}

Result<std::vector<JournalRecord>> ReadJournal(const std::string& path) {
  const shm::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    if (errno == ENOENT) return Status(Code::kNotFound, "no journal " + path);
    return FromErrno("open " + path, errno);
  }
  std::vector<JournalRecord> records;
  alignas(JournalEntry) std::array<std::byte, kRoomStep> block;
  for (std::uint64_t offset = kHeaderBytes; offset < kFileBytes;) {
    const std::size_t want = std::min<std::uint64_t>(block.size(), kFileBytes - offset);
    const ssize_t n = pread(fd.get(), block.data(), want, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno("read " + path, errno);
    const std::size_t whole = static_cast<std::size_t>(n) / sizeof(JournalEntry);
    if (whole == 0) break;
    const auto part = Collect({reinterpret_cast<const JournalEntry*>(block.data()), whole});
    // Entries are filled in order, so a block without any ends what was ever written.
    if (part.empty()) break;
    records.insert(records.end(), part.begin(), part.end());
    offset += whole * sizeof(JournalEntry);
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return records;
}

// From the newest back: what the runs after a record went back to. A run of the same world cancels
// its own rank; one of another world is another job and cancels all.
std::vector<std::uint64_t> EffectiveRows(const std::vector<JournalRecord>& records) {
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // epoch, row
  constexpr Place kNever = {~0ull, ~0ull};
  std::map<std::uint64_t, Place> begins;  // run: where it began
  for (const JournalRecord& r : records) {
    const Place place = {r.epoch, r.start_row};
    const auto begin = begins.emplace(r.run, place).first;
    begin->second = std::min(begin->second, place);
  }
  std::map<std::uint32_t, Place> of_world;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Place> of_rank;
  std::map<std::uint64_t, bool> seen;
  std::vector<std::uint64_t> effective(records.size());
  for (std::size_t i = records.size(); i-- > 0;) {
    const JournalRecord& r = records[i];
    Place limit = kNever;
    for (const auto& [world, place] : of_world) {
      if (world != r.world_size) limit = std::min(limit, place);
    }
    if (const auto it = of_rank.find({r.world_size, r.rank}); it != of_rank.end()) {
      limit = std::min(limit, it->second);
    }
    effective[i] = r.delivered_row;
    if (limit <= Place{r.epoch, r.start_row}) {
      effective[i] = r.start_row;
    } else if (limit.first == r.epoch) {
      effective[i] = std::min(r.delivered_row, limit.second);
    }
    // A run counts for what came before its first entry only.
    const bool first = Place{r.epoch, r.start_row} == begins[r.run];
    if (!first || seen[r.run]) continue;
    seen[r.run] = true;
    const Place begin = begins[r.run];
    auto world = of_world.emplace(r.world_size, kNever).first;
    world->second = std::min(world->second, begin);
    auto rank = of_rank.emplace(std::pair{r.world_size, r.rank}, kNever).first;
    rank->second = std::min(rank->second, begin);
  }
  return effective;
}

}  // namespace stoker::state
