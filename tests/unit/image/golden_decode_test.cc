// What TensorFlow answered for real and for damaged images: ours gives the same pixels or refuses
// too. Windows follow D6: a crop equals the crop of the full decode, which TensorFlow's own
// windows do not always.
#include "daemon/base/half.h"
#include "tests/unit/image/golden.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

Decoded DecodeAs(const std::string& bytes, bool fast, std::uint32_t channels = 3) {
  DecodeOptions options;
  options.fast_dct = fast;
  options.channels = channels;
  return Decode(bytes, options);
}

// Counts one answer under "same" or "refused"; fails where TensorFlow's differs.
void Compare(const Json& theirs, const Decoded& ours, const std::string& name, Counts* counts) {
  CAPTURE(name);
  const bool ok = theirs["ok"];
  CHECK(ok == (ours.fault == FaultClass::kNone));
  if (!ok) {
    ++(*counts)[name + " refused"];
    return;
  }
  CHECK(theirs["shape"][0] == ours.height);
  CHECK(theirs["shape"][1] == ours.width);
  CHECK(theirs["sha256"] == Digest(ours.data));
  ++(*counts)[name + " same"];
}

TEST_CASE("every real file decodes to TensorFlow's pixels, or is refused by both",
          "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("decode.jsonl")) {
    const std::string file = row["file"];
    CAPTURE(file);
    const std::string bytes = ReadFile(test::DataDir() / file);
    const std::string format = row["format"];
    if (format != "jpeg") {
      CHECK(std::string(FormatName(std::as_bytes(std::span(bytes)))) != "JPEG");
      ++counts[format];
      continue;
    }
    const Json& tf = row["tf"];
    Compare(tf["fast"], DecodeAs(bytes, true), "fast", &counts);
    Compare(tf["accurate"], DecodeAs(bytes, false), "accurate", &counts);
    if (tf.contains("fast_1_channel")) {
      Compare(tf["fast_1_channel"], DecodeAs(bytes, true, 1), "fast gray", &counts);
      Compare(tf["accurate_1_channel"], DecodeAs(bytes, false, 1), "accurate gray", &counts);
    }
    if (!tf.contains("decode_and_crop")) continue;
    const Json& crop = tf["decode_and_crop"];
    const auto window = crop["window_yxhw"];
    const Window place = {window[0], window[1], window[2], window[3]};
    const auto full = DecodeAs(bytes, false);
    REQUIRE(full.fault == FaultClass::kNone);
    const bool same = Digest(Crop(full, 3, place)) == std::string(crop["sha256"]);
    CHECK(same == (crop["vs_crop_of_full"]["max"] == 0));
    ++counts[same ? "window same" : "window D6"];
  }
  CHECK(Text(counts) == Text({{"fast same", 115},
                              {"fast refused", 18},
                              {"accurate same", 115},
                              {"accurate refused", 18},
                              {"fast gray same", 35},
                              {"fast gray refused", 9},
                              {"accurate gray same", 35},
                              {"accurate gray refused", 9},
                              {"window same", 88},
                              {"window D6", 23},
                              {"png", 36},
                              {"gif", 5},
                              {"jp2", 1}}));
}

TEST_CASE("every damaged file is refused or filled as TensorFlow and libjpeg do",
          "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("damage.jsonl")) {
    const std::string file = row["file"];
    CAPTURE(file);
    const std::string bytes = ReadFile(test::GoldenDir() / "image" / file);
    REQUIRE(bytes.size() == row["bytes"]);
    const auto accurate = DecodeAs(bytes, false);
    Compare(row["tf_strict"], accurate, "accurate", &counts);
    Compare(row["tf_strict_fast"], DecodeAs(bytes, true), "fast", &counts);
    Compare(row["tf_strict_1_channel"], DecodeAs(bytes, false, 1), "gray", &counts);
    // libjpeg's warnings, which djpeg reports by leaving with 2.
    if (accurate.fault == FaultClass::kNone) {
      CHECK((accurate.counters.jpeg_warnings > 0) == (row["djpeg"]["exit"] == 2));
      if (accurate.counters.jpeg_warnings > 0) ++counts["with warnings"];
    }
    // A file above whose damage TensorFlow takes a crop: ours decides before the crop (D6).
    if (row["tf_crop_top"]["ok"] == true && accurate.fault != FaultClass::kNone) ++counts["D6"];
  }
  CHECK(Text(counts) == Text({{"accurate same", 85},
                              {"accurate refused", 106},
                              {"fast same", 85},
                              {"fast refused", 106},
                              {"gray same", 61},
                              {"gray refused", 130},
                              {"with warnings", 25},
                              {"D6", 63}}));
}

TEST_CASE("a tolerant spec takes incomplete files and fills them as djpeg does",
          "[image][golden]") {
  Counts counts;
  DecodeOptions tolerant;
  tolerant.tolerant = true;
  for (const Json& row : ReadLines("damage.jsonl")) {
    const std::string bytes = ReadFile(test::GoldenDir() / "image" / std::string(row["file"]));
    const std::string base = row["base"];
    CAPTURE(row["file"]);
    const Decoded ours = Decode(bytes, tolerant);
    CHECK(ours.counters.truncated <= 1);
    if (row["djpeg"]["exit"] == 1) {  // it wrote no picture
      CHECK(ours.fault != FaultClass::kNone);
      ++counts["refused"];
      continue;
    }
    REQUIRE(ours.fault == FaultClass::kNone);
    if (base.starts_with("cmyk") || base.starts_with("ycck")) {  // TensorFlow's rule, not djpeg's
      ++counts["ink"];
      continue;
    }
    DecodeOptions options = tolerant;
    options.channels = row["djpeg"]["shape"][2];
    CHECK(row["djpeg"]["sha256"] == Digest(Decode(bytes, options).data));
    ++counts[ours.counters.truncated == 1 ? "filled" : "complete"];
  }
  CHECK(Text(counts) == Text({{"complete", 61}, {"filled", 56}, {"ink", 45}, {"refused", 29}}));
}

TEST_CASE("float16 and bfloat16 round as TensorFlow's casts", "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("cast.jsonl")) {
    const auto bits = static_cast<std::uint32_t>(std::stoul(std::string(row["in"]), nullptr, 16));
    const auto want = static_cast<std::uint16_t>(std::stoul(std::string(row["out"]), nullptr, 16));
    const float value = std::bit_cast<float>(bits);
    CAPTURE(row.dump());
    CHECK((row["to"] == "float16" ? ToFloat16(value) : ToBfloat16(value)) == want);
    ++counts[row["to"]];
  }
  CHECK(Text(counts) == Text({{"bfloat16", 402}, {"float16", 402}}));
}

}  // namespace
}  // namespace stoker::image
