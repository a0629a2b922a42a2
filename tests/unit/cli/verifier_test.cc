#include "client/cli/verifier.h"

#include <fstream>

#include "client/cli/tool_input.h"
#include "daemon/base/philox.h"
#include "daemon/io/record_writer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using stoker::FaultClass;
using stoker::cli::Loss;
using stoker::cli::Meter;
using stoker::cli::Verify;
using stoker::io::Compression;
using stoker::io::RecordWriter;

namespace {

// Records of 0 to 9999 bytes: several to a piece, and many that lie across two.
std::vector<std::uint64_t> WriteFile(const std::string& path, std::uint64_t seed, int records) {
  std::vector<std::uint64_t> offsets = {0};
  auto writer = RecordWriter::Create(path, Compression::kPlain);
  REQUIRE(writer.ok());
  stoker::RowRandom random(seed, 0, 0, 0);
  for (int i = 0; i < records; ++i) {
    std::vector<std::byte> payload(random.Below(10000), static_cast<std::byte>(i));
    REQUIRE(writer->Append(payload).ok());
    offsets.push_back(offsets.back() + 16 + payload.size());
  }
  REQUIRE(writer->Close().ok());
  return offsets;
}

void Flip(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

}  // namespace

TEST_CASE("many threads find the damage that one finds, in the file's order") {
  const stoker::test::TempDir dir;
  std::vector<std::string> paths;
  std::vector<std::vector<std::uint64_t>> offsets;
  for (std::uint64_t i = 0; i < 3; ++i) {
    paths.push_back(dir / ("f" + std::to_string(i)));
    offsets.push_back(WriteFile(paths[i], i, 300));
  }
  for (const std::size_t record : {7, 150, 151, 299}) Flip(paths[1], offsets[1][record + 1] - 1);
  Flip(paths[2], offsets[2][200]);
  for (const unsigned threads : {1, 4, 9}) {
    Meter meter(false, "", 0);
    const auto found = Verify(paths, threads, &meter);
    REQUIRE(found.size() == 3);
    CHECK(found[0].records == 300);
    CHECK(found[0].damage.empty());
    CHECK(found[1].records == 296);
    REQUIRE(found[1].damage.size() == 4);
    std::size_t at = 0;
    for (const std::uint64_t record : {7, 150, 151, 299}) {
      const Loss& loss = found[1].damage[at++];
      CHECK(loss.record == record);
      CHECK(loss.offset == offsets[1][record]);
      CHECK(loss.fault == FaultClass::kPayloadCrcMismatch);
    }
    CHECK(found[2].records == 200);
    CHECK(found[2].beyond == 99);
    REQUIRE(found[2].damage.size() == 1);
    CHECK(found[2].damage[0].fault == FaultClass::kHeaderCrcMismatch);
    CHECK(found[2].damage[0].bytes == offsets[2][201] - offsets[2][200]);
  }
}

TEST_CASE("a file of no bytes is good and holds nothing") {
  const stoker::test::TempDir dir;
  const std::string path = dir / "empty";
  std::ofstream(path).close();
  Meter meter(false, "", 0);
  const auto found = Verify({path}, 2, &meter);
  CHECK(found[0].error.empty());
  CHECK(found[0].damage.empty());
  CHECK(found[0].records == 0);
}
