// Segments and resident copies: whatever holds a shard's bytes, its records are the file's, damage
// is one record's, and memory stays within its bounds.
#include <random>
#include <thread>

#include "daemon/io/framing.h"
#include "daemon/io/record_reader.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/unit/io/support.h"

namespace stoker::io {
namespace {

struct Opened {
  MemorySource* source;
  std::shared_ptr<Shard> shard;
};

Opened Open(const std::string& bytes, Compression compression, Holding holding, SegmentCache* cache,
            std::uint64_t most = 1 << 20) {
  auto source = std::make_unique<MemorySource>(bytes);
  MemorySource* raw = source.get();
  ShardFile file;
  file.path = "shard";
  file.identity.size = bytes.size();
  file.compression = compression;
  auto index = BuildIndex(*raw, bytes.size(), compression, "shard", {});
  REQUIRE(index.ok());
  auto shard = Shard::Over(std::move(source), file, *index, {CrcMode::kFull, most, holding, cache});
  REQUIRE(shard.ok());
  return {raw, *shard};
}

std::string Text(const Record& record) {
  return {reinterpret_cast<const char*>(record.payload.data()), record.payload.size()};
}

// Records of many sizes: some far smaller than a segment, some larger than several.
std::vector<std::string> Payloads() {
  std::mt19937_64 draw(11);
  std::vector<std::string> payloads;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t size = i % 300 == 17 ? 150000 + draw() % 90000 : draw() % 400;
    std::string payload(size, '\0');
    for (char& c : payload) c = static_cast<char>(draw());
    payloads.push_back(std::move(payload));
  }
  return payloads;
}

std::string File(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const auto& payload : payloads) bytes += test::Frame(payload);
  return bytes;
}

TEST_CASE("every holding gives the same records in any order", "[io][holding]") {
  const auto payloads = Payloads();
  const std::string plain = File(payloads);
  const std::string gzip = Gzip(plain);
  for (const Holding holding : {Holding::kCached, Holding::kResident}) {
    for (const bool compressed : {false, true}) {
      SegmentCache cache(3 << 20);
      const auto [source, shard] =
          Open(compressed ? gzip : plain, compressed ? Compression::kGzip : Compression::kPlain,
               holding, &cache);
      std::mt19937_64 draw(3);
      for (int run = 0; run < 60; ++run) {
        RecordBlock block;
        std::vector<std::uint64_t> asked;
        for (int i = 0; i < 40; ++i) asked.push_back(draw() % payloads.size());
        for (std::size_t i = 0; i < asked.size(); ++i) {
          const std::uint64_t soon = asked[std::min(i + 4, asked.size() - 1)];
          shard->PrefetchPlace(soon);
          shard->Prefetch(soon, block);
          shard->Read(asked[i], 1, &block);
        }
        REQUIRE(block.records().size() == asked.size());
        for (std::size_t i = 0; i < asked.size(); ++i) {
          REQUIRE(block.records()[i].fault == FaultClass::kNone);
          REQUIRE(Text(block.records()[i]) == payloads[asked[i]]);
        }
      }
      if (holding == Holding::kResident) CHECK(shard->restarts() == 0);
      CHECK(shard->resident_bytes() <= plain.size());
    }
  }
}

TEST_CASE("a resident copy asks the file once for each segment", "[io][holding]") {
  const auto payloads = Payloads();
  const std::string plain = File(payloads);
  const auto [source, shard] = Open(plain, Compression::kPlain, Holding::kResident, nullptr);
  for (int epoch = 0; epoch < 3; ++epoch) {
    RecordBlock block;
    shard->Read(0, static_cast<std::uint32_t>(payloads.size()), &block);
  }
  CHECK(shard->bytes_read() == plain.size());
  CHECK(shard->resident_bytes() == plain.size());
}

TEST_CASE("workers that want one segment at once all get its records", "[io][holding]") {
  const auto payloads = Payloads();
  for (const bool compressed : {false, true}) {
    const std::string plain = File(payloads);
    const auto opened =
        Open(compressed ? Zlib(plain) : plain,
             compressed ? Compression::kZlib : Compression::kPlain, Holding::kResident, nullptr);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 draw(t);
        RecordBlock block;
        for (int i = 0; i < 2000; ++i) {
          const std::uint64_t record = draw() % payloads.size();
          block.Clear();
          opened.shard->Read(record, 1, &block);
          if (Text(block.records()[0]) != payloads[record]) ++wrong;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a bit that flips while a segment is filled costs nothing, in the file one record",
          "[io][holding]") {
  const std::string bytes = test::Frame("alpha") + test::Frame("beta") + test::Frame("gamma");
  const std::uint64_t in_beta = 21 + 12 + 1;
  for (const Holding holding : {Holding::kCached, Holding::kResident}) {
    SegmentCache cache(1 << 20);
    const auto [source, shard] = Open(bytes, Compression::kPlain, holding, &cache);
    source->lies[in_beta] = 1;
    RecordBlock block;
    shard->Read(0, 3, &block);
    CHECK(Text(block.records()[1]) == "beta");
    CHECK(shard->rereads() == 1);

    const auto broken = Open(bytes, Compression::kPlain, holding, &cache);
    broken.source->lies[in_beta] = 1000;
    block.Clear();
    broken.shard->Read(0, 3, &block);
    CHECK(Text(block.records()[0]) == "alpha");
    CHECK(block.records()[1].fault == FaultClass::kPayloadCrcMismatch);
    CHECK(block.records()[1].offset == 21);
    CHECK(Text(block.records()[2]) == "gamma");
  }
}

TEST_CASE("a segment that cannot be read is asked for record by record", "[io][holding]") {
  const std::string bytes = test::Frame("alpha") + test::Frame("beta");
  for (const Holding holding : {Holding::kCached, Holding::kResident}) {
    SegmentCache cache(1 << 20);
    const auto [source, shard] = Open(bytes, Compression::kPlain, holding, &cache);
    source->fails = 1;
    RecordBlock block;
    shard->Read(0, 2, &block);
    CHECK(Text(block.records()[0]) == "alpha");
    CHECK(Text(block.records()[1]) == "beta");
    source->fails = 1000000;
    block.Clear();
    const auto failing = Open(bytes, Compression::kPlain, holding, &cache);
    failing.source->fails = 1000000;
    failing.shard->Read(0, 2, &block);
    CHECK(block.records()[0].fault == FaultClass::kReadError);
    CHECK(block.records()[1].fault == FaultClass::kReadError);
  }
}

TEST_CASE("a shard rewritten under its resident copy is named where it is not yet copied",
          "[io][holding]") {
  const auto payloads = Payloads();
  const std::string plain = File(payloads);
  for (const bool compressed : {false, true}) {
    const auto [source, shard] =
        Open(compressed ? Gzip(plain) : plain,
             compressed ? Compression::kGzip : Compression::kPlain, Holding::kResident, nullptr);
    RecordBlock block;
    shard->Read(0, 1, &block);
    REQUIRE(block.records()[0].fault == FaultClass::kNone);
    source->identity.mtime_ns += 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it is looked at so often at most
    block.Clear();
    shard->Read(payloads.size() - 1, 1, &block);
    CHECK(block.records()[0].fault == FaultClass::kShardChanged);
    block.Clear();
    shard->Read(0, 1, &block);
    CHECK(Text(block.records()[0]) == payloads[0]);
  }
}

TEST_CASE("a record over the limit takes no room in a copy or a segment", "[io][holding]") {
  const std::string big(700000, 'x');
  const std::string plain = test::Frame("alpha") + test::Frame(big) + test::Frame("gamma");
  for (const Holding holding : {Holding::kCached, Holding::kResident}) {
    for (const bool compressed : {false, true}) {
      SegmentCache cache(1 << 20);
      const auto [source, shard] =
          Open(compressed ? Gzip(plain) : plain,
               compressed ? Compression::kGzip : Compression::kPlain, holding, &cache, 1000);
      RecordBlock block;
      shard->Read(0, 3, &block);
      CHECK(Text(block.records()[0]) == "alpha");
      CHECK(block.records()[1].fault == FaultClass::kRecordTooLarge);
      CHECK(Text(block.records()[2]) == "gamma");
      CHECK(shard->resident_bytes() + cache.bytes() <= 21 + 21);
    }
  }
}

TEST_CASE("a run over more segments than it may pin copies the rest", "[io][holding]") {
  std::vector<std::string> payloads;
  for (int i = 0; i < 200; ++i) payloads.push_back(std::string(40000, static_cast<char>(i)));
  SegmentCache cache(1 << 20);  // far less than the run touches
  const auto [source, shard] = Open(File(payloads), Compression::kPlain, Holding::kCached, &cache);
  RecordBlock block;
  for (std::uint64_t i = 0; i < 200; ++i) shard->Read((i * 77) % 200, 1, &block);
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE(Text(block.records()[i]) == payloads[(i * 77) % 200]);
  }
  CHECK(cache.bytes() <= 1 << 20);
  CHECK(block.memory_bytes() > 0);  // the copies
}

}  // namespace
}  // namespace stoker::io
