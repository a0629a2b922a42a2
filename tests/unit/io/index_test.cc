// Indexes: every record is where the file has it, whatever the sizes; a sidecar is used only when
// it is certainly that of the shard.
#include <random>

#include "daemon/io/index_sidecar.h"
#include "daemon/io/shard_index.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"

namespace stoker::io {
namespace {

ShardFile FileOf(const std::string& path) {
  ManifestOptions options;
  options.files = {path};
  auto manifest = BuildManifest(options);
  REQUIRE(manifest.ok());
  return manifest->shards[0];
}

std::shared_ptr<const ShardIndex> IndexOf(const ShardFile& file) {
  auto loaded = LoadOrBuildIndex(file, {});
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return loaded->index;
}

TEST_CASE("any record of any mix of sizes is found", "[io][index]") {
  test::TempDir dir;
  std::mt19937_64 draw(11);
  for (const auto& [count, most] :
       {std::pair(1, 10), std::pair(63, 0), std::pair(64, 100), std::pair(65, 5000),
        std::pair(1000, 300), std::pair(200, 40000)}) {
    std::string bytes;
    std::vector<Extent> want;
    for (int i = 0; i < count; ++i) {
      const std::string payload(most == 0 ? 0 : draw() % static_cast<std::uint64_t>(most), 'x');
      want.push_back({bytes.size(), payload.size()});
      bytes += test::Frame(payload);
    }
    test::WriteFile(dir / "f", bytes);
    const auto index = IndexOf(FileOf(dir / "f"));
    REQUIRE(index->records() == want.size());
    for (std::uint64_t i = 0; i < want.size(); ++i) {
      REQUIRE(index->At(i).offset == want[i].offset);
      REQUIRE(index->At(i).length == want[i].length);
    }
    CHECK(index->end_offset() == bytes.size());
    CHECK_FALSE(index->damage());
    std::filesystem::remove(dir / "f");
  }
}

TEST_CASE("records of one size cost next to nothing in the index", "[io][index]") {
  test::TempDir dir;
  std::string bytes;
  for (int i = 0; i < 64000; ++i) bytes += test::Frame("0123456789");
  test::WriteFile(dir / "f", bytes);
  CHECK(IndexOf(FileOf(dir / "f"))->memory_bytes() < 64000);
}

TEST_CASE("a sidecar is loaded, and any changed byte of it is noticed", "[io][index]") {
  test::TempDir dir;
  test::WriteFile(dir / "f", test::Frame("one") + test::Frame("three") + test::Frame("7"));
  const ShardFile file = FileOf(dir / "f");
  IndexOptions options;
  options.cache_dir = dir.path().string();
  CHECK(LoadOrBuildIndex(file, options)->origin == IndexOrigin::kBuilt);
  CHECK(LoadOrBuildIndex(file, options)->origin == IndexOrigin::kLoaded);

  const auto index = IndexOf(file);
  const std::string bytes = Sidecar::Encode(file, *index);
  std::string why;
  REQUIRE(Sidecar::Decode(bytes, file, &why) != nullptr);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    CAPTURE(i);
    REQUIRE(Sidecar::Decode(damaged, file, &why) == nullptr);
    REQUIRE(Sidecar::Decode(bytes.substr(0, i), file, &why) == nullptr);
  }
  for (auto change :
       {+[](ShardFile* f) { ++f->identity.size; }, +[](ShardFile* f) { ++f->identity.mtime_ns; },
        +[](ShardFile* f) { ++f->identity.inode; }, +[](ShardFile* f) { ++f->identity.device; },
        +[](ShardFile* f) { f->path += "x"; },
        +[](ShardFile* f) { f->compression = Compression::kGzip; }}) {
    ShardFile other = file;
    change(&other);
    CHECK(Sidecar::Decode(bytes, other, &why) == nullptr);
  }
}

TEST_CASE("the bytes of a sidecar are those of its page", "[io][index][golden]") {
  ShardFile file;
  file.path = "/d/a";
  file.identity = {19, 2, 3, 4};
  IndexBuilder builder;
  builder.Add(0, 3, 0x01020304);
  const std::string bytes = Sidecar::Encode(file, *builder.Finish(19, std::nullopt));
  const auto at = [&bytes](std::size_t offset, std::size_t n) { return bytes.substr(offset, n); };
  REQUIRE(bytes.size() == 128 + 4 + 32 + 8);
  CHECK(at(0, 8) == "STOKIDX1");
  CHECK(at(12, 4) == test::Little(test::SlowCrc(bytes.substr(128)), 4));
  CHECK(at(16, 8) == test::Little(19, 8));
  CHECK(at(24, 24) == test::Little(2, 8) + test::Little(3, 8) + test::Little(4, 8));
  CHECK(at(48, 8) == test::Little(1, 4) + test::Little(4, 4));   // PLAIN, 4 bytes of path
  CHECK(at(56, 16) == test::Little(1, 8) + test::Little(3, 8));  // records, longest
  CHECK(at(80, 24) == test::Little(19, 8) + test::Little(1, 8) + test::Little(8, 8));
  CHECK(at(128, 4) == "/d/a");
  CHECK(at(132, 32) ==
        test::Little(0, 8) + test::Little(19, 8) + test::Little(0, 8) + test::Little(0, 8));
}

TEST_CASE("a folder that cannot be written leaves the index in memory and says so", "[io][index]") {
  test::TempDir dir;
  test::WriteFile(dir / "f", test::Frame("one"));
  IndexOptions options;
  options.cache_dir = dir / "not-there";
  const auto loaded = LoadOrBuildIndex(FileOf(dir / "f"), options);
  REQUIRE(loaded.ok());
  CHECK(loaded->origin == IndexOrigin::kBuiltNotStored);
  CHECK(loaded->note.find("stays in memory") != std::string::npos);
}

TEST_CASE("an index knows the record at an offset and the longest under a limit", "[io][index]") {
  test::TempDir dir;
  test::WriteFile(dir / "f", test::Frame("") + test::Frame(std::string(50, 'x')) +
                                 test::Frame(std::string(7, 'y')));
  const auto index = IndexOf(FileOf(dir / "f"));
  CHECK(index->FirstFrom(0) == 0);
  CHECK(index->FirstFrom(1) == 1);
  CHECK(index->FirstFrom(16) == 1);
  CHECK(index->FirstFrom(17) == 2);
  CHECK(index->FirstFrom(82) == 2);
  CHECK(index->FirstFrom(83) == 3);
  CHECK(index->longest() == 50);
  CHECK(index->LongestWithin(50) == 50);
  CHECK(index->LongestWithin(49) == 7);
  CHECK(index->LongestWithin(6) == 0);
}

TEST_CASE("progress adds up to the bytes of the shard, also of a small one", "[io][index]") {
  test::TempDir dir;
  test::WriteFile(dir / "f", test::Frame("abc"));
  std::atomic<std::uint64_t> progress{0};
  IndexOptions options;
  options.progress_bytes = &progress;
  REQUIRE(LoadOrBuildIndex(FileOf(dir / "f"), options).ok());
  CHECK(progress == 19);
}

TEST_CASE("records of any size cost less than four bytes in the index", "[io][index]") {
  IndexBuilder builder;
  std::mt19937_64 draw(2);
  std::uint64_t offset = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t length = draw() % 200000;
    builder.Add(offset, length, 0);
    offset += length + 16;
  }
  CHECK(builder.Finish(offset, std::nullopt)->memory_bytes() < 400000);
}

TEST_CASE("a stale or emptied sidecar is built anew with a note", "[io][index]") {
  test::TempDir dir;
  std::filesystem::create_directory(dir / "cache");
  IndexOptions options;
  options.cache_dir = dir / "cache";
  test::WriteFile(dir / "f", test::Frame("1"));
  REQUIRE(LoadOrBuildIndex(FileOf(dir / "f"), options)->origin == IndexOrigin::kBuilt);
  const std::string sidecar = Sidecar::PathFor(options.cache_dir, dir / "f");
  CHECK((std::filesystem::status(sidecar).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));

  test::WriteFile(dir / "f", test::Frame("1") + test::Frame("2"));
  auto loaded = LoadOrBuildIndex(FileOf(dir / "f"), options);
  CHECK(loaded->origin == IndexOrigin::kBuilt);
  CHECK(loaded->index->records() == 2);
  CHECK(loaded->note.find("built anew") != std::string::npos);

  std::filesystem::resize_file(sidecar, 0);
  loaded = LoadOrBuildIndex(FileOf(dir / "f"), options);
  CHECK(loaded->origin == IndexOrigin::kBuilt);
  CHECK(loaded->note.find("built anew") != std::string::npos);
  CHECK(LoadOrBuildIndex(FileOf(dir / "f"), options)->origin == IndexOrigin::kLoaded);
}

TEST_CASE("damage is kept with the index, in a sidecar too", "[io][index]") {
  test::TempDir dir;
  std::string bytes = test::Frame("one") + test::Frame("two") + test::Frame("three");
  bytes[19 + 8] ^= 1;  // the checksum of the second length
  test::WriteFile(dir / "f", bytes);
  IndexOptions options;
  options.cache_dir = dir.path().string();
  for (const auto origin : {IndexOrigin::kBuilt, IndexOrigin::kLoaded}) {
    const auto loaded = LoadOrBuildIndex(FileOf(dir / "f"), options);
    REQUIRE(loaded.ok());
    CHECK(loaded->origin == origin);
    CHECK(loaded->index->records() == 1);
    REQUIRE(loaded->index->damage());
    CHECK(loaded->index->damage()->fault == FaultClass::kHeaderCrcMismatch);
    CHECK(loaded->index->damage()->record == 1);
    CHECK(loaded->index->damage()->offset == 19);
  }
}

}  // namespace
}  // namespace stoker::io
