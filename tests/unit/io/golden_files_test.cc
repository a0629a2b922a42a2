// 124 files of other projects: the scan, the index and reading by number find the records that an
// independent reader found.
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/base/sha256.h"
#include "daemon/io/record_reader.h"
#include "tests/support/catch.h"
#include "tests/support/test_data.h"

namespace stoker::io {
namespace {

void Add(std::span<const std::byte> payload, Sha256* digest) {
  digest->UpdateLittle(std::uint64_t{payload.size()});
  digest->Update(payload);
}

TEST_CASE("real files give the records that an independent reader found", "[io][golden]") {
  std::ifstream in(test::DataDir() / "expected.json");
  const auto expected = nlohmann::json::parse(in);
  int files = 0;
  int refused = 0;
  for (const auto& [name, want] : expected.items()) {
    CAPTURE(name);
    ++files;
    ManifestOptions options;
    options.files = {(test::DataDir() / name).string()};
    const auto manifest = BuildManifest(options);
    if (want.contains("first_error")) {
      ++refused;
      REQUIRE_FALSE(manifest.ok());
      CHECK(manifest.status().message().find("not-a-tfrecord") != std::string::npos);
      continue;
    }
    REQUIRE(manifest.ok());
    const ShardFile& file = manifest->shards[0];
    CHECK((want["compression"] == "GZIP") == (file.compression == Compression::kGzip));

    const auto source = FileSource::Open(file.path, "");
    REQUIRE(source.ok());
    const auto stream = OpenStream(*source, file.identity.size, file.compression);
    RecordScanner scanner(stream.get(), {});
    RecordScanner::Record scanned;
    Sha256 by_scan;
    while (scanner.Next(&scanned)) Add(scanned.payload, &by_scan);
    CHECK_FALSE(scanner.damage());

    const auto loaded = LoadOrBuildIndex(file, {});
    REQUIRE(loaded.ok());
    SegmentCache cache(16 << 20);
    const auto shard =
        Shard::Open(file, loaded->index, {CrcMode::kFull, 1 << 30, Holding::kCached, &cache});
    REQUIRE(shard.ok());
    const std::uint64_t records = loaded->index->records();
    CHECK(records == want["records"]);
    Sha256 by_number;
    RecordBlock block;
    for (std::uint64_t first = 0; first < records; first += 17) {
      block.Clear();
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(17, records - first));
      (*shard)->Read(first, count, &block);
      for (const Record& record : block.records()) {
        if (record.fault != FaultClass::kNone) FAIL("record " << record.number);
        Add(record.payload, &by_number);
      }
    }
    CHECK(Sha256::Hex(by_scan.Finish()) == want["records_sha256"]);
    CHECK(Sha256::Hex(by_number.Finish()) == want["records_sha256"]);
  }
  CHECK(files == 124);
  CHECK(refused == 1);
}

}  // namespace
}  // namespace stoker::io
