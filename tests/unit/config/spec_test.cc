// What a user is told of a spec before any data is read.
#include "config/spec.h"

#include "config/daemon_config.h"
#include "config/spec_hash.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"
#include "tests/support/temp_dir.h"

namespace stoker::config {
namespace {

const std::string kGood =
    "name: \"s\" source { files: \"f\" } tensor { name: \"t\" dtype: INT64 } batch { size: 4 }";

Status Judge(const std::string& text) {
  auto spec = ParseSpec(text, "file.textproto");
  if (!spec.ok()) return spec.status();
  STOKER_TRY(FillDefaults(&*spec));
  return ValidateSpec(*spec);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE("a good spec passes and its defaults are written out", "[config]") {
  CHECK(Judge(kGood).ok());
  auto spec = *ParseSpec(kGood, "f");
  REQUIRE(FillDefaults(&spec).ok());
  CHECK(spec.source(0).max_bad_records() == 100);
  CHECK(spec.source(0).max_record_bytes() == 2147483647);
  CHECK(spec.order().reshuffle());
  CHECK(spec.delivery().slots() == 4);
  CHECK(spec.delivery().linger_ms() == 60000);
  CHECK(spec.tensor(0).feature() == "t");
  const auto again = ParseSpec(SpecText(spec), "printed");
  REQUIRE(again.ok());
  CHECK(SpecText(*again) == SpecText(spec));
}

TEST_CASE("each refusal names the field and what to do", "[config]") {
  const struct {
    const char* from;
    const char* to;
    const char* words[3];
  } cases[] = {
      {"name: \"s\"", "nane: \"s\"", {"file.textproto:1:", "nane", "spec.md"}},
      {"name: \"s\"", "name: \"a b\"", {"name", "[A-Za-z0-9._-]", ""}},
      {"files: \"f\"", "", {"source.files", "", ""}},
      {"files: \"f\"", "files: \"f\" bad_row: REPLACE", {"source.bad_row", "SKIP", ""}},
      {"files: \"f\"", "files: \"f\" max_record_bytes: 0", {"max_record_bytes", "", ""}},
      {"size: 4", "size: 0", {"batch.size", "1 to 1048576", ""}},
      {"size: 4", "size: 1048577", {"batch.size", "", ""}},
      {"dtype: INT64", "", {"dtype", "required", ""}},
      {"dtype: INT64", "dtype: FLOAT64", {"kind", "cast", "FLOAT64"}},
      {"dtype: INT64", "dtype: INT64 kind: KIND_BYTES", {"kind", "decode_raw", ""}},
      {"dtype: INT64", "dtype: INT64 shape: -1", {"shape", "ragged", ""}},
      {"dtype: INT64", "dtype: INT64 shape: 2000000000 shape: 2000000000", {"shape", "10^12", ""}},
      {"dtype: INT64", "dtype: INT64 ragged {} shape: 2", {"shape", "ragged", ""}},
      {"dtype: INT64", "dtype: INT64 layout: NCHW", {"layout", "images", ""}},
      {"dtype: INT64", "dtype: INT64 image {}", {"dtype", "UINT8", ""}},
      {"dtype: INT64", "dtype: BYTES padded { length: 3 }", {"padded", "ragged", ""}},
      {"dtype: INT64", "dtype: INT64 padded { truncate: true }", {"truncate", "length", ""}},
      {"name: \"t\"", "name: \"row_ids\"", {"row_ids", "Stoker's own", ""}},
      {"batch {", "tensor { name: \"t\" dtype: INT64 } batch {", {"tensor[1] \"t\"", "twice", ""}},
      {"batch {", "order { window { rows: 3 } } batch {", {"order.window", "WINDOW", ""}},
      {"batch {",
       "order { shuffle: GLOBAL interleave { cycle: 2 } } batch {",
       {"interleave", "GLOBAL", ""}},
      {"batch {", "order { split { of: 2 part: 2 } } batch {", {"order.split", "below", ""}},
      {"batch {", "order { repeat: 0 } batch {", {"order.repeat", "", ""}},
      {"batch {", "delivery { slots: 1 } batch {", {"delivery.slots", "2 to 64", ""}},
      {"batch {", "delivery { expect: 2 } batch {", {"delivery.expect", "BROADCAST", ""}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.to);
    const Status status = Judge(Replaced(kGood, c.from, c.to));
    CHECK(status.code() == Code::kInvalidArgument);
    for (const char* word : c.words) {
      CAPTURE(status.message());
      CHECK(status.message().find(word) != std::string::npos);
    }
  }
}

TEST_CASE("part hashes tell which part changed, and file names are not part of one", "[config]") {
  const auto hash = [](const std::string& text) {
    auto spec = *ParseSpec(text, "f");
    (void)FillDefaults(&spec);
    return HashParts(spec);
  };
  const PartHashes base = hash(kGood);
  CHECK(hash(Replaced(kGood, "files: \"f\"", "files: \"g\"")).source == base.source);
  CHECK(hash(Replaced(kGood, "files: \"f\"", "files: \"f\" crc: OFF")).source != base.source);
  CHECK(hash(Replaced(kGood, "batch {", "order { seed: 1 } batch {")).order != base.order);
  CHECK(hash(Replaced(kGood, "batch {", "order { repeat: 9 } batch {")).order == base.order);
  CHECK(hash(Replaced(kGood, "dtype: INT64", "dtype: INT64 shape: 1")).tensors != base.tensors);
  CHECK(hash(Replaced(kGood, "size: 4", "size: 5")).batch != base.batch);
  CHECK(hash(Replaced(kGood, "batch {", "delivery { slots: 5 } batch {")).delivery !=
        base.delivery);
  CHECK(hash(kGood + " delivery { slots: 4 }").delivery ==
        base.delivery);  // a default said outright
}

TEST_CASE("deep nesting and long input are refused, not followed", "[config]") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "source {";
  CHECK_FALSE(ParseSpec(deep, "deep").ok());
}

TEST_CASE("a daemon's configuration is read with its places", "[config]") {
  test::TempDir dir;
  test::WriteFile(dir / "c", "workers: 3\nmemory_bytes: 1000\nlimits { streams: 7 }\n");
  auto config = LoadDaemonConfig(dir / "c");
  REQUIRE(config.ok());
  config->set_cache_dir(dir / "cache");
  REQUIRE(FillDaemonDefaults(&*config).ok());
  CHECK(config->workers() == 3);
  CHECK(config->limits().streams() == 7);
  CHECK(config->limits().consumers() == 1024);
  CHECK_FALSE(config->runtime_dir().empty());
  test::WriteFile(dir / "bad", "workers: 3\nwrokers: 4\n");
  CHECK(LoadDaemonConfig(dir / "bad").status().message().find("bad:2:") != std::string::npos);
  test::WriteFile(dir / "c", "workers: 0");
  auto none = LoadDaemonConfig(dir / "c");
  CHECK_FALSE(FillDaemonDefaults(&*none).ok());
}

}  // namespace
}  // namespace stoker::config
