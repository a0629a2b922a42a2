// What TensorFlow answered for PNGs of every colour type and depth, whole and damaged: ours gives
// the same values as uint8 and as uint16, or refuses too.
#include "tests/unit/image/golden.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

Decoded DecodePng(const std::string& bytes, std::uint32_t channels, bool deep) {
  DecodeOptions options;
  options.channels = channels;
  options.deep = deep;
  return Decode(bytes, options);
}

std::string DigestOf(const Decoded& image, bool deep) {
  return deep ? Digest(image.values) : Digest(image.data);
}

TEST_CASE("PNGs of every kind give TensorFlow's values, or are refused by both",
          "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("png.jsonl")) {
    const std::string bytes = Unhex(row["png"]);
    for (const bool deep : {false, true}) {
      for (const std::uint32_t channels : {3u, 1u}) {
        const std::string name =
            std::string("tf_uint") + (deep ? "16_" : "8_") + std::to_string(channels);
        CAPTURE(row["name"], name);
        REQUIRE(row.contains(name));
        const Json& theirs = row[name];
        const Decoded ours = DecodePng(bytes, channels, deep);
        CAPTURE(ours.detail);
        CHECK(theirs["ok"] == (ours.fault == FaultClass::kNone));
        if (theirs["ok"] == false) {
          CHECK(ours.fault == FaultClass::kBadImage);
          ++counts[name + " refused"];
          continue;
        }
        const Array want = ToArray(theirs);
        std::vector<float> values(ours.data.begin(), ours.data.end());
        if (deep) values.assign(ours.values.begin(), ours.values.end());
        CHECK(values == want.values);
        ++counts[name];
      }
    }
  }
  CHECK(Text(counts) == Text({{"tf_uint8_3", 44},
                              {"tf_uint8_3 refused", 9},
                              {"tf_uint8_1", 44},
                              {"tf_uint8_1 refused", 9},
                              {"tf_uint16_3", 44},
                              {"tf_uint16_3 refused", 9},
                              {"tf_uint16_1", 44},
                              {"tf_uint16_1 refused", 9}}));
}

TEST_CASE("real PNGs give TensorFlow's values", "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("decode.jsonl")) {
    if (row["format"] != "png") continue;
    const std::string bytes = ReadFile(test::DataDir() / std::string(row["file"]));
    CAPTURE(row["file"]);
    const std::tuple<const char*, std::uint32_t, bool> forms[] = {
        {"uint8", 3, false}, {"uint8_1_channel", 1, false}, {"uint16", 3, true}};
    for (const auto& [name, channels, deep] : forms) {
      CAPTURE(name);
      const Json& theirs = row["tf"][name];
      const Decoded ours = DecodePng(bytes, channels, deep);
      CAPTURE(ours.detail);
      CHECK(theirs["ok"] == (ours.fault == FaultClass::kNone));
      if (theirs["ok"] == true) CHECK(theirs["sha256"] == DigestOf(ours, deep));
      ++counts[std::string(name) + (theirs["ok"] == true ? "" : " refused")];
    }
  }
  CHECK(Text(counts) == Text({{"uint8", 33},
                              {"uint8 refused", 3},
                              {"uint8_1_channel", 33},
                              {"uint8_1_channel refused", 3},
                              {"uint16", 33},
                              {"uint16 refused", 3}}));
}

TEST_CASE("a window of a PNG is that of the whole", "[image][golden]") {
  for (const Json& row : ReadLines("png.jsonl")) {
    const std::string bytes = Unhex(row["png"]);
    const Decoded full = DecodePng(bytes, 3, false);
    if (full.fault != FaultClass::kNone) continue;
    CAPTURE(row["name"]);
    const Window window = {full.height / 3, full.width / 4, 1 + full.height / 2,
                           1 + full.width / 3};
    CHECK(Decode(bytes, {}, &window).data == Crop(full, 3, window));
  }
}

}  // namespace
}  // namespace stoker::image
