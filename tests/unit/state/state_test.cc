// What a restart finds: whole files or none, and in the journal the last thing that was stored.
#include <fstream>
#include <iterator>

#include "daemon/state/lane_journal.h"
#include "daemon/state/state_store.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace stoker::state {
namespace {

v1::StoredStream Stored(const std::string& name, std::uint64_t seed) {
  v1::StoredStream stored;
  stored.mutable_spec()->set_name(name);
  stored.set_seed(seed);
  return stored;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

JournalRecord Start(std::uint64_t run, std::uint32_t rank, std::uint64_t epoch, std::uint64_t row,
                    std::uint32_t world = 2) {
  JournalRecord record;
  record.run = run;
  record.rank = rank;
  record.world_size = world;
  record.batch = 8;
  record.epoch = epoch;
  record.start_row = row;
  return record;
}

JournalRecord Ran(std::uint64_t number, JournalRecord record, std::uint64_t delivered) {
  record.number = number;
  record.delivered_row = delivered;
  return record;
}

TEST_CASE("the bytes of a stored stream are those of its page", "[state]") {
  const std::string bytes = EncodeStored(Stored("a", 7));
  CHECK(bytes == std::string("STOKSTRM\x01\0\0\0\xdc\x07\xc6\x11\x07\0\0\0\0\0\0\0"
                             "\x0a\x03\x0a\x01\x61\x10\x07",
                             31));
}

TEST_CASE("a stored stream that was cut anywhere, or has one bit flipped, is refused", "[state]") {
  const std::string whole = EncodeStored(Stored("imagenet", 123456789));
  REQUIRE(DecodeStored(whole).ok());
  CHECK(DecodeStored(whole)->seed() == 123456789);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    CHECK(DecodeStored(whole.substr(0, cut)).status().code() == Code::kDataLoss);
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    CHECK(DecodeStored(flipped).status().code() == Code::kDataLoss);
  }
}

TEST_CASE("the last state stored of each stream is found; torn and foreign files are not",
          "[state]") {
  test::TempDir dir;
  auto store = StateStore::Open(dir / "state");
  REQUIRE(store.ok());
  REQUIRE((*store)->Store(Stored("b", 1)).ok());
  REQUIRE((*store)->Store(Stored("a", 2)).ok());
  REQUIRE((*store)->Store(Stored("b", 3)).ok());
  REQUIRE((*store)->Store(Stored("c", 4)).ok());
  REQUIRE((*store)->Store(Stored("..", 5)).ok());
  (*store)->Remove("c");
  const std::string whole = ReadFile(dir / "state/streams/a.stream");
  std::ofstream(dir / "state/streams/torn.stream", std::ios::binary) << whole.substr(0, 20);
  std::ofstream(dir / "state/streams/other.stream", std::ios::binary) << whole;
  std::ofstream(dir / "state/streams/d.stream.tmp", std::ios::binary) << whole;
  const auto streams = (*store)->Load();
  REQUIRE(streams.size() == 3);
  CHECK(streams[0].spec().name() == "..");
  CHECK(streams[1].spec().name() == "a");
  CHECK(streams[1].seed() == 2);
  CHECK(streams[2].spec().name() == "b");
  CHECK(streams[2].seed() == 3);
}

TEST_CASE("a state folder belongs to one daemon at a time", "[state]") {
  test::TempDir dir;
  {
    auto first = StateStore::Open(dir / "state");
    REQUIRE(first.ok());
    CHECK(StateStore::Open(dir / "state").status().code() == Code::kFailedPrecondition);
  }
  CHECK(StateStore::Open(dir / "state").ok());
  CHECK(StateStore::Open("").status().code() == Code::kFailedPrecondition);
}

TEST_CASE("a journal is read while it is written, and gone on with after a death", "[state]") {
  test::TempDir dir;
  const std::string path = dir / "j";
  {
    auto journal = LaneJournal::Open(path, 99);
    REQUIRE(journal.ok());
    CHECK((*journal)->NewRun() == 1);
    JournalEntry* entry = (*journal)->Begin(Start(1, 0, 5, 16));
    REQUIRE(entry != nullptr);
    entry->delivered_row = 48;
    entry->released_row = 32;
    entry->rows = 16;
    const auto seen = ReadJournal(path);
    REQUIRE(seen.ok());
    REQUIRE(seen->size() == 1);
    CHECK((*seen)[0].number == 1);
    CHECK((*seen)[0].epoch == 5);
    CHECK((*seen)[0].start_row == 16);
    CHECK((*seen)[0].delivered_row == 48);
    CHECK((*seen)[0].released_row == 32);
    CHECK((*seen)[0].rows == 16);
    CHECK((*seen)[0].batch == 8);
  }
  auto again = LaneJournal::Open(path, 99);
  REQUIRE(again.ok());
  CHECK((*again)->NewRun() == 2);
  REQUIRE((*again)->Begin(Start(2, 0, 5, 32)) != nullptr);
  const auto both = ReadJournal(path);
  REQUIRE(both->size() == 2);
  CHECK((*both)[1].number == 2);
}

TEST_CASE("a journal of another plan is begun anew", "[state]") {
  test::TempDir dir;
  REQUIRE((*LaneJournal::Open(dir / "j", 1))->Begin(Start(1, 0, 0, 0)) != nullptr);
  REQUIRE(LaneJournal::Open(dir / "j", 2).ok());
  CHECK(ReadJournal(dir / "j")->empty());
  CHECK(ReadJournal(dir / "none").status().code() == Code::kNotFound);
}

TEST_CASE("an entry with any bit of its fixed part flipped is left out", "[state]") {
  test::TempDir dir;
  auto journal = LaneJournal::Open(dir / "j", 1);
  REQUIRE((*journal)->Begin(Start(1, 1, 3, 8)) != nullptr);
  REQUIRE((*journal)->Begin(Start(1, 1, 4, 0)) != nullptr);
  const std::string whole = ReadFile(dir / "j");
  for (std::size_t bit = 0; bit < 60 * 8; ++bit) {
    CAPTURE(bit);
    std::string flipped = whole.substr(0, 4096 + 2 * sizeof(JournalEntry));
    flipped[4096 + bit / 8] = static_cast<char>(flipped[4096 + bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(dir / "k", std::ios::binary) << flipped;
    const auto left = ReadJournal(dir / "k");
    REQUIRE(left->size() == 1);
    CHECK((*left)[0].epoch == 4);
  }
}

TEST_CASE("the newest entries take the place of the oldest", "[state]") {
  test::TempDir dir;
  auto journal = LaneJournal::Open(dir / "j", 1);
  for (std::uint64_t epoch = 0; epoch < kJournalEntries + 100; ++epoch) {
    if ((*journal)->Begin(Start(1, 0, epoch, 0)) == nullptr) FAIL("no room");
  }
  const auto records = ReadJournal(dir / "j");
  REQUIRE(records->size() == kJournalEntries);
  CHECK(records->front().epoch == 100);
  CHECK(records->back().epoch == kJournalEntries + 99);
}

TEST_CASE("a run that goes back cancels what its own rank delivered after that row", "[state]") {
  const std::vector<JournalRecord> records = {
      Ran(1, Start(1, 0, 0, 0), 100),                                  // rank 0, epoch 0, all
      Ran(2, Start(2, 1, 0, 0), 100),                                  // rank 1, likewise
      Ran(3, Start(1, 0, 1, 0), 48),                                   // rank 0 dies in epoch 1
      Ran(4, Start(2, 1, 1, 0), 64),  Ran(5, Start(3, 0, 1, 32), 80),  // and goes on from row 32
      Ran(6, Start(4, 0, 0, 64), 64),  // and again, from an older token; nothing delivered
  };
  CHECK(EffectiveRows(records) == std::vector<std::uint64_t>{64, 100, 0, 64, 32, 64});
}

TEST_CASE("a job of another world size cancels every rank's rows behind its start", "[state]") {
  const std::vector<JournalRecord> records = {
      Ran(1, Start(1, 0, 0, 0, 2), 64),
      Ran(2, Start(2, 1, 0, 0, 2), 48),
      Ran(3, Start(3, 0, 0, 32, 1), 100),
      Ran(4, Start(3, 0, 1, 0, 1), 8),
  };
  CHECK(EffectiveRows(records) == std::vector<std::uint64_t>{32, 32, 100, 8});
}

}  // namespace
}  // namespace stoker::state
