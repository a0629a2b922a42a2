// Reading by number: one bad record costs itself, storage that lies once costs nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "daemon/io/record_reader.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/io/support.h"

namespace stoker::io {
namespace {

struct Opened {
  MemorySource* source;
  std::shared_ptr<Shard> shard;
};

Opened Open(const std::string& bytes, Compression compression, SegmentCache* cache,
            CrcMode crc = CrcMode::kFull, std::uint64_t most = 1 << 20) {
  auto source = std::make_unique<MemorySource>(bytes);
  MemorySource* raw = source.get();
  ShardFile file;
  file.path = "shard";
  file.identity.size = bytes.size();
  file.compression = compression;
  IndexOptions options;
  options.max_record_bytes = most;
  auto index = BuildIndex(*raw, bytes.size(), compression, "shard", options);
  INFO(index.status().message());
  REQUIRE(index.ok());
  auto shard =
      Shard::Over(std::move(source), file, *index,
                  {crc, most, cache == nullptr ? Holding::kDirect : Holding::kCached, cache});
  REQUIRE(shard.ok());
  return {raw, *shard};
}

std::string Text(const Record& record) {
  return {reinterpret_cast<const char*>(record.payload.data()), record.payload.size()};
}

TEST_CASE("a bit that flips once is read again, one that stays is damage of one record", "[io]") {
  const std::string bytes = test::Frame("alpha") + test::Frame("beta") + test::Frame("gamma");
  auto [source, shard] = Open(bytes, Compression::kPlain, nullptr);
  const std::uint64_t in_beta = 21 + 12 + 1;
  source->lies[in_beta] = 1;
  RecordBlock block;
  shard->Read(0, 3, &block);
  REQUIRE(block.records().size() == 3);
  CHECK(Text(block.records()[1]) == "beta");
  CHECK(shard->rereads() == 1);

  source->lies[in_beta] = 1000;
  block.Clear();
  shard->Read(0, 3, &block);
  CHECK(Text(block.records()[0]) == "alpha");
  CHECK(block.records()[1].fault == FaultClass::kPayloadCrcMismatch);
  CHECK(block.records()[1].offset == 21);
  CHECK(block.records()[1].payload.empty());
  CHECK(Text(block.records()[2]) == "gamma");
  CHECK(shard->rereads() == 1);
}

TEST_CASE("a storage error is tried twice and then costs its record alone", "[io]") {
  auto [source, shard] = Open(test::Frame("a") + test::Frame("b"), Compression::kPlain, nullptr);
  source->fails = 1;
  RecordBlock block;
  shard->Read(0, 2, &block);
  CHECK(Text(block.records()[0]) == "a");
  source->fails = 100;
  block.Clear();
  shard->Read(0, 1, &block);
  CHECK(block.records()[0].fault == FaultClass::kReadError);
}

TEST_CASE("crc LENGTH and OFF let a changed payload through, FULL does not", "[io]") {
  std::string bytes = test::Frame("payload");
  bytes[14] ^= 1;
  for (const auto& [crc, fault] : {std::pair(CrcMode::kFull, FaultClass::kPayloadCrcMismatch),
                                   std::pair(CrcMode::kLength, FaultClass::kNone),
                                   std::pair(CrcMode::kOff, FaultClass::kNone)}) {
    auto [source, shard] = Open(bytes, Compression::kPlain, nullptr, crc);
    RecordBlock block;
    shard->Read(0, 1, &block);
    CHECK(block.records()[0].fault == fault);
  }
}

TEST_CASE("zero-length records are records, and one over the limit costs itself", "[io]") {
  auto [source, shard] = Open(
      test::Frame("") + test::Frame(std::string(101, 'x')) + test::Frame("") + test::Frame("ok"),
      Compression::kPlain, nullptr, CrcMode::kFull, 100);
  RecordBlock block;
  shard->Read(0, 4, &block);
  CHECK(block.records()[0].fault == FaultClass::kNone);
  CHECK(block.records()[0].payload.empty());
  CHECK(block.records()[1].fault == FaultClass::kRecordTooLarge);
  CHECK(block.records()[2].fault == FaultClass::kNone);
  CHECK(Text(block.records()[3]) == "ok");
}

TEST_CASE("compressed shards are read by number, forwards without starting over", "[io]") {
  std::string plain;
  std::vector<std::string> want;
  for (int i = 0; i < 3000; ++i) {
    want.push_back("record " + std::to_string(i) +
                   std::string(static_cast<std::size_t>(i % 1000), 'z'));
    plain += test::Frame(want.back());
  }
  // A member boundary anywhere, even inside a header.
  const std::string bytes =
      Gzip(plain.substr(0, 5)) + Gzip(plain.substr(5, 700000)) + Gzip(plain.substr(700005));
  SegmentCache cache(1 << 20);  // room for two segments
  auto [source, shard] = Open(bytes, Compression::kGzip, &cache);
  RecordBlock block;
  for (std::uint32_t i = 0; i < 3000; i += 50) shard->Read(i, 50, &block);
  REQUIRE(block.records().size() == 3000);
  for (std::size_t i = 0; i < 3000; ++i) REQUIRE(Text(block.records()[i]) == want[i]);
  CHECK(shard->restarts() == 0);
  CHECK(cache.bytes() <= (2u << 20));
  block.Clear();
  shard->Read(7, 1, &block);
  CHECK(Text(block.records()[0]) == want[7]);
  CHECK(shard->restarts() == 1);
}

TEST_CASE("a block keeps what it gave while more is appended", "[io]") {
  std::string bytes;
  for (int i = 0; i < 200; ++i)
    bytes += test::Frame(std::string(5000, static_cast<char>('a' + i % 26)));
  auto [source, shard] = Open(bytes, Compression::kPlain, nullptr);
  RecordBlock block;
  for (std::uint32_t i = 0; i < 200; ++i) shard->Read(199 - i, 1, &block);
  for (std::size_t i = 0; i < 200; ++i) {
    REQUIRE(Text(block.records()[i]) == std::string(5000, static_cast<char>('a' + (199 - i) % 26)));
  }
}

TEST_CASE("zlib shards are read to their last record, whatever the records' sizes", "[io]") {
  for (int size = 1; size < 400; size += 7) {
    std::string plain;
    for (int i = 0; i < 40; ++i)
      plain += test::Frame(std::string(static_cast<std::size_t>(size), 'a'));
    SegmentCache cache(1 << 20);
    auto [source, shard] = Open(Zlib(plain), Compression::kZlib, &cache);
    REQUIRE(shard->index().records() == 40);
    REQUIRE_FALSE(shard->index().damage());
    RecordBlock block;
    shard->Read(39, 1, &block);
    REQUIRE(Text(block.records()[0]) == std::string(static_cast<std::size_t>(size), 'a'));
  }
}

TEST_CASE("a compressed record over the limit costs itself and no memory", "[io]") {
  const std::string huge(8 << 20, 'h');
  const std::string bytes =
      Gzip(test::Frame("before") + test::Frame(huge) + test::Frame("after") + test::Frame("last"));
  SegmentCache cache(64 << 20);
  auto [source, shard] = Open(bytes, Compression::kGzip, &cache, CrcMode::kFull, 1000);
  RecordBlock block;
  shard->Read(0, 4, &block);
  CHECK(Text(block.records()[0]) == "before");
  CHECK(block.records()[1].fault == FaultClass::kRecordTooLarge);
  CHECK(Text(block.records()[2]) == "after");
  CHECK(Text(block.records()[3]) == "last");
  CHECK(cache.bytes() < 1000);
  CHECK(block.memory_bytes() < (1 << 20));
  CHECK(shard->restarts() == 0);
}

TEST_CASE("a far seek in a compressed shard leaves the cache to what is read", "[io]") {
  std::string plain;
  for (int i = 0; i < 300; ++i) plain += test::Frame(std::string(100000, 'a'));
  SegmentCache cache(100 << 20);
  auto [source, shard] = Open(Gzip(plain), Compression::kGzip, &cache);
  RecordBlock block;
  shard->Read(299, 1, &block);
  CHECK(block.records()[0].payload.size() == 100000);
  CHECK(cache.bytes() < (6 << 20));
  CHECK(shard->restarts() == 0);
}

TEST_CASE("compressed storage that lies once is inflated again, and then the shard is given up",
          "[io]") {
  std::mt19937_64 draw(3);
  std::string plain;
  for (int i = 0; i < 40; ++i) {
    std::string payload(100000, '\0');
    for (char& c : payload) c = static_cast<char>(draw());
    plain += test::Frame(payload);
  }
  const std::string bytes = Gzip(plain);  // as large as what it holds
  SegmentCache cache(1 << 20);
  auto [source, shard] = Open(bytes, Compression::kGzip, &cache);
  const auto faults = [&, reader = shard.get()](std::uint64_t first, std::uint32_t count) {
    RecordBlock block;
    reader->Read(first, count, &block);
    std::vector<FaultClass> classes;
    for (const Record& record : block.records()) classes.push_back(record.fault);
    return classes;
  };
  // Damage inside stored data shows in the record's checksum; damage of its coding in inflating.
  source->fails = 1;
  CHECK(faults(0, 1) == std::vector{FaultClass::kNone});
  CHECK(shard->rereads() == 1);
  source->fails = 1000;
  CHECK(faults(39, 1) == std::vector{FaultClass::kReadError});
  source->fails = 0;
  CHECK(faults(39, 1) == std::vector{FaultClass::kNone});
}

TEST_CASE("caches tell shards apart, also one that came where another was", "[io]") {
  SegmentCache cache(1 << 20);
  for (int round = 0; round < 20; ++round) {
    const std::string text = "round " + std::to_string(round);
    auto [source, shard] = Open(Gzip(test::Frame(text)), Compression::kGzip, &cache);
    RecordBlock block;
    shard->Read(0, 1, &block);
    REQUIRE(Text(block.records()[0]) == text);
  }
}

TEST_CASE("many threads read one compressed shard and all see the same records", "[io]") {
  std::string plain;
  for (int i = 0; i < 2000; ++i) plain += test::Frame(std::to_string(i) + std::string(1500, 'x'));
  SegmentCache cache(1 << 20);
  auto opened = Open(Gzip(plain), Compression::kGzip, &cache);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        RecordBlock block;
        for (int i = t; i < 2000; i += 4) {
          block.Clear();
          opened.shard->Read(static_cast<std::uint64_t>(i), 1, &block);
          if (Text(block.records()[0]) != std::to_string(i) + std::string(1500, 'x')) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a block used for ever stays as large as its largest use", "[io]") {
  std::mt19937_64 draw(9);
  RecordBlock block;
  for (int round = 0; round < 3000; ++round) {
    block.Clear();
    for (int i = 0; i < 8; ++i) block.Allocate(draw() % 600000);
  }
  CHECK(block.memory_bytes() <= 8 * 600000);
}

// A shard of real files, opened as a stream opens it.
class OnDisk {
 public:
  OnDisk() {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += test::Frame("old " + std::to_string(i));
    test::WriteFile(path(), bytes);
    SetTime(1000);
    ManifestOptions options;
    options.files = {path()};
    file = BuildManifest(options)->shards[0];
    index = LoadOrBuildIndex(file, {})->index;
  }
  std::string path() const { return dir_ / "f"; }
  Result<std::shared_ptr<Shard>> Open() const {
    return Shard::Open(file, index, {CrcMode::kFull, 1 << 20, Holding::kDirect, nullptr});
  }
  void SetTime(time_t seconds) const {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(utimensat(AT_FDCWD, path().c_str(), times, 0) == 0);
  }
  void Rewrite(const std::string& word) const {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += test::Frame(word + std::to_string(i));
    std::fstream(path(), std::ios::binary | std::ios::in | std::ios::out) << bytes;
    SetTime(2000);
  }

  ShardFile file;
  std::shared_ptr<const ShardIndex> index;

 private:
  test::TempDir dir_;
};

TEST_CASE("a shard rewritten in place is noticed, even where every checksum is right", "[io]") {
  const OnDisk disk;
  auto shard = disk.Open();
  REQUIRE(shard.ok());
  disk.Rewrite("new ");
  RecordBlock block;
  (*shard)->Read(0, 4, &block);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(block.records()[i].fault == FaultClass::kShardChanged);
    CHECK(block.fault_detail(i).find("rewritten") != std::string::npos);
  }
  CHECK(disk.Open().status().message().find("shard-changed") != std::string::npos);
  CHECK(LoadOrBuildIndex(disk.file, {}).status().message().find("shard-changed") !=
        std::string::npos);
}

TEST_CASE("a shard cut while it is open is told with both sizes", "[io]") {
  const OnDisk disk;
  auto shard = disk.Open();
  REQUIRE(truncate(disk.path().c_str(), 0) == 0);
  RecordBlock block;
  (*shard)->Read(1, 2, &block);
  CHECK(block.records()[0].fault == FaultClass::kShardChanged);
  CHECK(block.fault_detail(0) == "it had 84 bytes when the stream opened and has 0 now");
}

TEST_CASE("what is appended to a shard is not read, and changes nothing", "[io]") {
  const OnDisk disk;
  auto shard = disk.Open();
  std::ofstream(disk.path(), std::ios::binary | std::ios::app) << test::Frame("more");
  RecordBlock block;
  (*shard)->Read(0, 4, &block);
  CHECK(Text(block.records()[3]) == "old 3");
  CHECK(disk.Open().ok());
  CHECK(LoadOrBuildIndex(disk.file, {})->index->records() == 4);
}

TEST_CASE("a file renamed over a shard does not mix into it", "[io]") {
  const OnDisk disk;
  auto shard = disk.Open();
  test::WriteFile(disk.path() + ".new", test::Frame("new"));
  std::filesystem::rename(disk.path() + ".new", disk.path());
  RecordBlock block;
  (*shard)->Read(0, 4, &block);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(Text(block.records()[i]) == "old " + std::to_string(i));
  }
  CHECK(disk.Open().status().message().find("shard-changed") != std::string::npos);
}

}  // namespace
}  // namespace stoker::io
