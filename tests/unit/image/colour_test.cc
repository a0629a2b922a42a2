// What colour ops, erasing and groups do to the rows of a program.
#include <algorithm>
#include <cmath>
#include <set>

#include "daemon/image/image_program.h"
#include "tests/support/catch.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

using Type = OpSpec::Type;

constexpr std::uint32_t kHeight = 40;
constexpr std::uint32_t kWidth = 56;

OpSpec Op(Type type) {
  OpSpec op;
  op.type = type;
  return op;
}

OpSpec Whole() {
  OpSpec op = Op(Type::kCenterCrop);
  op.height = kHeight;
  op.width = kWidth;
  return op;
}

std::string Picture(std::uint32_t seed = 1, std::uint32_t height = kHeight,
                    std::uint32_t width = kWidth) {
  return Encode(Scene(height, width, 3, seed), height, width, 3, JCS_RGB);
}

FaultClass RunInto(const ImageSpec& spec, ImageWorker* worker, const std::string& jpeg,
                   std::int64_t row, std::vector<std::uint8_t>* out) {
  const auto program = ImageProgram::Compile(spec);
  INFO(program.status().message());
  REQUIRE(program.ok());
  out->resize((*program)->row_bytes());
  ImageCounters counters;
  std::string detail;
  return (*program)->Run(*worker, Bytes(jpeg), 7, row, 0, out->data(), &counters, &detail);
}

std::vector<std::uint8_t> Run(std::vector<OpSpec> ops, std::int64_t row,
                              const std::string& jpeg = Picture()) {
  ImageSpec spec;
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].number = static_cast<std::uint16_t>(i);
  spec.ops = std::move(ops);
  ImageWorker worker;
  std::vector<std::uint8_t> out;
  REQUIRE(RunInto(spec, &worker, jpeg, row, &out) == FaultClass::kNone);
  return out;
}

TEST_CASE("a jitter of nothing changes nothing, and one of each part changes rows anew",
          "[image][colour]") {
  const auto plain = Run({Whole()}, 0);
  CHECK(Run({Whole(), Op(Type::kColorJitter)}, 0) == plain);
  for (float OpSpec::*part :
       {&OpSpec::brightness, &OpSpec::contrast, &OpSpec::saturation, &OpSpec::hue}) {
    OpSpec jitter = Op(Type::kColorJitter);
    jitter.*part = 0.4f;
    std::set<std::vector<std::uint8_t>> seen;
    for (std::int64_t row = 0; row < 8; ++row) {
      const auto first = Run({Whole(), jitter}, row);
      CHECK(first == Run({Whole(), jitter}, row));
      seen.insert(first);
    }
    CHECK(seen.size() == 8);
  }
}

TEST_CASE("leaving a part of a jitter out changes no other part's draw", "[image][colour]") {
  OpSpec both = Op(Type::kColorJitter);
  both.brightness = 0.4f;
  OpSpec one = both;
  // A hue turn of almost nothing runs and leaves the pixels to within a level.
  both.hue = 1e-6f;
  for (std::int64_t row = 0; row < 8; ++row) {
    const auto a = Run({Whole(), one}, row);
    const auto b = Run({Whole(), both}, row);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 2);
  }
}

TEST_CASE("a brightness jitter multiplies by a factor within its range", "[image][colour]") {
  OpSpec jitter = Op(Type::kColorJitter);
  jitter.brightness = 0.25f;
  const std::string flat =
      Encode(std::vector<std::uint8_t>(kHeight * kWidth * 3, 100), kHeight, kWidth, 3, JCS_RGB);
  int least = 255;
  int most = 0;
  for (std::int64_t row = 0; row < 200; ++row) {
    const int value = Run({Whole(), jitter}, row, flat)[0];
    least = std::min(least, value);
    most = std::max(most, value);
  }
  CHECK(least >= 74);
  CHECK(least <= 77);
  CHECK(most <= 125);
  CHECK(most >= 122);
}

TEST_CASE("TensorFlow's brightness adds the same to dark and bright", "[image][colour]") {
  OpSpec op = Op(Type::kTfBrightness);
  op.lower = 0.1f;
  op.upper = 0.100001f;
  const std::string flat =
      Encode(std::vector<std::uint8_t>(kHeight * kWidth * 3, 100), kHeight, kWidth, 3, JCS_RGB);
  CHECK(Run({Whole(), op}, 0, flat)[0] == 125);  // floor((100 / 255 + 0.1) * 255.5)
}

TEST_CASE("gray has equal channels, for as many rows as its probability says", "[image][colour]") {
  OpSpec gray = Op(Type::kGrayscale);
  gray.probability = 0.25f;
  int grays = 0;
  for (std::int64_t row = 0; row < 400; ++row) {
    const auto out = Run({Whole(), gray}, row);
    bool equal = true;
    for (std::size_t i = 0; i < out.size(); i += 3) equal = equal && out[i] == out[i + 1];
    grays += equal ? 1 : 0;
  }
  CHECK(grays > 60);
  CHECK(grays < 140);
}

// The bounds of what differs from the plain image, and whether all of it holds `value`.
Window Changed(const std::vector<std::uint8_t>& plain, const std::vector<std::uint8_t>& out,
               int value) {
  std::uint32_t top = kHeight, left = kWidth, bottom = 0, right = 0;
  for (std::uint32_t y = 0; y < kHeight; ++y) {
    for (std::uint32_t x = 0; x < kWidth; ++x) {
      const std::size_t at = (std::size_t{y} * kWidth + x) * 3;
      if (std::equal(&plain[at], &plain[at] + 3, &out[at])) continue;
      CHECK(out[at] == value);
      top = std::min(top, y);
      left = std::min(left, x);
      bottom = std::max(bottom, y + 1);
      right = std::max(right, x + 1);
    }
  }
  return bottom == 0 ? Window{} : Window{top, left, bottom - top, right - left};
}

TEST_CASE("erasing fills a rectangle of the share asked for", "[image][colour]") {
  OpSpec erase = Op(Type::kErase);
  erase.probability = 1.0f;
  erase.crop.scale_min = 0.02f;
  erase.crop.scale_max = 0.33f;
  erase.crop.ratio_min = 0.3f;
  erase.crop.ratio_max = 3.3f;
  erase.value = 255.0f;
  const auto plain = Run({Whole()}, 0);
  int erased = 0;
  for (std::int64_t row = 0; row < 60; ++row) {
    const Window window = Changed(plain, Run({Whole(), erase}, row), 255);
    const double share = static_cast<double>(window.h) * window.w / (kHeight * kWidth);
    CHECK(share < 0.36);
    erased += share > 0.015 ? 1 : 0;
  }
  CHECK(erased > 55);
}

TEST_CASE("a cutout is a square cut at the image's sides", "[image][colour]") {
  OpSpec cutout = Op(Type::kCutout);
  cutout.height = 16;
  cutout.value = 0.0f;
  const auto plain = Run({Whole()}, 0);
  int whole = 0;
  int cut = 0;
  for (std::int64_t row = 0; row < 80; ++row) {
    const Window window = Changed(plain, Run({Whole(), cutout}, row), 0);
    CHECK(window.h <= 16);
    CHECK(window.w <= 16);
    CHECK(window.h * window.w >= 60);
    (window.h == 16 && window.w == 16 ? whole : cut) += 1;
  }
  CHECK(whole > 10);
  CHECK(cut > 10);
}

TEST_CASE("colour that needs colour is refused for one channel", "[image][colour]") {
  for (const Type type : {Type::kGrayscale, Type::kTfSaturation, Type::kTfHue}) {
    ImageSpec spec;
    spec.decode.channels = 1;
    spec.ops = {Whole(), Op(type)};
    CHECK_FALSE(ImageProgram::Compile(spec).ok());
    spec.decode.channels = 3;
    CHECK(ImageProgram::Compile(spec).ok());
  }
}

TEST_CASE("colour before a crop is not colour behind it, and both are served", "[image][colour]") {
  OpSpec crop = Op(Type::kCenterCrop);
  crop.height = crop.width = 8;
  OpSpec contrast = Op(Type::kTfContrast);
  contrast.lower = 0.4f;
  contrast.upper = 0.5f;
  CHECK(Run({contrast, crop}, 3) != Run({crop, contrast}, 3));
}

TEST_CASE("images of a group must have one size in each row", "[image][group]") {
  ImageSpec spec;
  OpSpec crop = Op(Type::kRandomCrop);
  crop.height = crop.width = 8;
  spec.ops = {crop};
  spec.group = 1;
  ImageWorker worker;
  std::vector<std::uint8_t> image;
  std::vector<std::uint8_t> mask;
  for (std::int64_t row = 0; row < 20; ++row) {
    CHECK(RunInto(spec, &worker, Picture(), row, &image) == FaultClass::kNone);
    CHECK(RunInto(spec, &worker, Picture(), row, &mask) == FaultClass::kNone);
    CHECK(image == mask);
  }
  CHECK(RunInto(spec, &worker, Picture(1, 30, 40), 20, &image) == FaultClass::kNone);
  CHECK(RunInto(spec, &worker, Picture(1, 30, 41), 20, &mask) == FaultClass::kBadImage);
}

}  // namespace
}  // namespace stoker::image
