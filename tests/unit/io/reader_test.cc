// Reading by number: one bad record costs itself, storage that lies once costs nothing.
#include <zlib.h>

#include <algorithm>
#include <map>

#include "daemon/io/record_reader.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::io {
namespace {

// Serves a byte string; flips the bits of `lies` on the first reads that cover them.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    if (fails > 0) {
      --fails;
      return Status(Code::kDataLoss, "pread: Input/output error");
    }
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t n = std::min<std::size_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, n);
    for (auto& [at, times] : lies) {
      if (times == 0 || at < offset || at >= offset + n) continue;
      --times;
      out[at - offset] ^= std::byte{1};
    }
    return n;
  }
  Result<FileIdentity> Identity() const override { return FileIdentity{bytes_.size(), 0, 0, 0}; }

  mutable std::map<std::uint64_t, int> lies;
  mutable int fails = 0;

 private:
  std::string bytes_;
};

struct Opened {
  MemorySource* source;
  std::shared_ptr<Shard> shard;
};

Opened Open(const std::string& bytes, Compression compression, InflatedCache* cache,
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
  return {raw, Shard::Over(std::move(source), file, *index, crc, cache, most)};
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

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
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
  InflatedCache cache(1 << 20);  // room for two segments
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

}  // namespace
}  // namespace stoker::io
