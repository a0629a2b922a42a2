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
  CHECK(spec.tensor(0).kind() == v1::KIND_INT64);
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
      {"dtype: INT64", "dtype: INT64 feature_list: true", {"feature_list", "ragged", "padded"}},
      {"dtype: INT64", "dtype: INT64 ragged {} allow_missing: true", {"allow_missing", "", ""}},
      {"dtype: INT64", "dtype: INT64 kind: KIND_BYTES", {"kind", "decode_raw", ""}},
      {"dtype: INT64", "dtype: INT64 shape: -1", {"shape", "ragged", ""}},
      {"dtype: INT64", "dtype: INT64 shape: 2000000000 shape: 2000000000", {"shape", "10^12", ""}},
      {"dtype: INT64", "dtype: INT64 ragged {} shape: 2", {"shape", "ragged", ""}},
      {"dtype: INT64", "dtype: INT64 layout: NCHW", {"layout", "images", ""}},
      {"dtype: INT64", "dtype: INT64 image {}", {"dtype", "UINT8", ""}},
      {"dtype: INT64",
       "dtype: UINT8 image { max_pixels: 0 }",
       {"image.max_pixels", "1 or more", ""}},
      {"dtype: INT64", "dtype: UINT8 image { max_scans: 0 }", {"image.max_scans", "1 or more", ""}},
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

TEST_CASE("what an operation leaves unsaid is written out, by the image's profile", "[config]") {
  const auto filled = [](const std::string& image, const std::string& op) {
    auto spec = *ParseSpec(
        "name: \"s\" tensor { name: \"t\" dtype: FLOAT32 " + image + " op { " + op + " } }", "f");
    (void)FillDefaults(&spec);
    return spec.tensor(0).op(0).ShortDebugString();
  };
  CHECK(filled("image {}", "resize { height: 2 width: 3 }") ==
        "resize { height: 2 width: 3 antialias: true }");
  CHECK(filled("image { profile: TF }", "resize { height: 2 width: 3 }") ==
        "resize { height: 2 width: 3 antialias: false }");
  CHECK(filled("image {}", "random_resized_crop { height: 2 width: 3 }") ==
        "random_resized_crop { height: 2 width: 3 scale: 0.08 scale: 1 ratio: 0.75 "
        "ratio: 1.33333337 antialias: true rule: RULE_TORCHVISION }");
  CHECK(filled("image {}", "random_flip_vertical {}") ==
        "random_flip_vertical { probability: 0.5 }");
  CHECK(filled("image {}", "normalize { mean: 1 }") == "normalize { mean: 1 scale_to_unit: true }");
  CHECK(filled("", "normalize { mean: 1 }") == "normalize { mean: 1 }");
  CHECK(filled("", "scale {}") == "scale { factor: 1 }");
  CHECK(filled("kind: KIND_INT64", "one_hot { depth: 3 }") == "one_hot { depth: 3 on: 1 off: 0 }");
}

TEST_CASE("an operation's refusal names tensor, place, operation and field", "[config]") {
  const struct {
    const char* op;
    const char* words[2];
  } cases[] = {
      {"resize { width: 3 }", {"op[1] resize.height: ", "1 to 65536"}},
      {"resize { height: 3 width: 65537 }", {"op[1] resize.width: ", "1 to 65536"}},
      {"resize_shorter {}", {"op[1] resize_shorter.size: ", "1 to 65536"}},
      {"center_crop { height: 1 }", {"op[1] center_crop.width: ", "required"}},
      {"random_crop { height: 1 width: 1 padding: 65537 }", {"random_crop.padding: ", "65536"}},
      {"random_resized_crop { height: 1 width: 1 scale: 0.5 }",
       {"random_resized_crop.scale: ", "two values"}},
      {"random_resized_crop { height: 1 width: 1 scale: [0.5, 0.1] }", {".scale: ", "smaller"}},
      {"random_resized_crop { height: 1 width: 1 scale: [0.5, 1.5] }", {".scale: ", "at most 1"}},
      {"random_resized_crop { height: 1 width: 1 ratio: [0, 1] }", {".ratio: ", "above 0"}},
      {"random_flip_horizontal { probability: 1.5 }", {"probability: ", "0 to 1"}},
      {"random_flip_vertical { probability: nan }", {"probability: ", "0 to 1"}},
      {"normalize { std: [1, 0, 1] }", {"normalize.std: ", "must not be 0"}},
      {"normalize { mean: inf }", {"normalize.mean: ", "finite"}},
      {"scale { factor: nan }", {"scale.factor: ", "finite"}},
      {"one_hot {}", {"one_hot.depth: ", "1 to 1048576"}},
      {"one_hot { depth: 1048577 }", {"one_hot.depth: ", "1 to 1048576"}},
      {"one_hot { depth: 2 smoothing: 2 }", {"one_hot.smoothing: ", "0 to 1"}},
      {"reshape { shape: [-1, -1] }", {"reshape.shape: ", "only one"}},
      {"reshape { shape: -2 }", {"reshape.shape: ", "may be -1"}},
      {"reshape { shape: [4294967296, 4294967296] }", {"reshape.shape: ", "2147483647"}},
      {"reshape { shape: [2000000000, 2000000000] }", {"reshape.shape: ", "10^12"}},
      {"cast { dtype: BYTES }", {"cast.dtype: ", "number"}},
      {"", {"op[1]: ", "no operation"}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.op);
    const Status status = Judge(Replaced(
        kGood, "dtype: INT64", "dtype: FLOAT32 op { scale {} } op { " + std::string(c.op) + " }"));
    CAPTURE(status.message());
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find("tensor[0] \"t\": op[1]") == 0);
    for (const char* word : c.words) CHECK(status.message().find(word) != std::string::npos);
  }
}

TEST_CASE("padding must be a value of the tensor's dtype", "[config]") {
  const auto pad = [](const std::string& dtype, const std::string& value) {
    return Judge(Replaced(kGood, "dtype: INT64",
                          "dtype: " + dtype + " kind: KIND_INT64 op { cast { dtype: " + dtype +
                              " } } padded { value: " + value + " }"));
  };
  CHECK(pad("INT64", "-1").ok());
  CHECK(pad("INT64", "9007199254740992").ok());
  CHECK(pad("UINT8", "255").ok());
  CHECK(pad("FLOAT32", "0.5").ok());
  CHECK(pad("FLOAT32", "nan").ok());
  for (const auto& [dtype, value] : {std::pair{"INT64", "0.5"},
                                     {"INT64", "nan"},
                                     {"INT64", "1e300"},
                                     {"UINT8", "256"},
                                     {"UINT8", "-1"},
                                     {"INT8", "128"},
                                     {"INT32", "2147483648"},
                                     {"BOOL", "2"}}) {
    CAPTURE(dtype, value);
    CHECK(pad(dtype, value).message().find("padded.value: is no value of " + std::string(dtype)) !=
          std::string::npos);
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
  const auto flip = [&hash](const std::string& said) {
    return hash(Replaced(kGood, "dtype: INT64",
                         "dtype: UINT8 image {} op { random_flip_horizontal { " + said + " } }"))
        .tensors;
  };
  CHECK(flip("") == flip("probability: 0.5"));
  CHECK(flip("") != flip("probability: 0.25"));
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
  CHECK(LoadDaemonConfig(dir / "bad").status().message().find("daemon.md") != std::string::npos);
  test::WriteFile(dir / "c", "workers: 0");
  auto none = LoadDaemonConfig(dir / "c");
  CHECK_FALSE(FillDaemonDefaults(&*none).ok());
}

}  // namespace
}  // namespace stoker::config
