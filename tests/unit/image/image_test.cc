// Pixels with literal values, and what a hostile or broken file is told.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "daemon/image/draws.h"
#include "daemon/image/image_program.h"
#include "daemon/image/jpeg.h"
#include "tests/support/catch.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

TEST_CASE("a ramp resized to half, with and without antialias", "[image]") {
  std::vector<float> ramp(100);
  for (std::size_t i = 0; i < 100; ++i) ramp[i] = static_cast<float>(i);
  const auto to = [&ramp](std::uint32_t height, std::uint32_t width, Method method,
                          bool antialias) {
    return Resize(ramp, 10, 10, 1, height, width, {method, antialias, Profile::kTorchvision});
  };
  const auto off = to(5, 5, Method::kBilinear, false);
  const float without[] = {5.5f, 7.5f, 9.5f, 11.5f, 13.5f};
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::fabs(off[i] - without[i]) < 0.001f);
  const auto on = to(5, 5, Method::kBilinear, true);
  const float with[] = {7.857f, 9.643f, 11.643f, 13.643f, 15.429f};
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::fabs(on[i] - with[i]) < 0.001f);
  CHECK(to(5, 5, Method::kNearest, false)[0] == 11.0f);
  CHECK(to(5, 5, Method::kNearestFloor, false)[0] == 0.0f);
  CHECK(to(10, 10, Method::kBilinear, true) == ramp);
  CHECK(to(23, 1, Method::kBilinear, true).size() == 23);
}

TEST_CASE("gray is expanded by copying, CMYK follows the Adobe rule", "[image]") {
  std::vector<std::uint8_t> gray(256);
  for (std::size_t i = 0; i < 256; ++i) gray[i] = static_cast<std::uint8_t>(i);
  const std::string jpeg = Encode(gray, 16, 16, 1, JCS_GRAYSCALE);
  const auto three = Decode(jpeg);
  REQUIRE(three.fault == FaultClass::kNone);
  REQUIRE(three.data.size() == 768);
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK(three.data[3 * i] == three.data[3 * i + 1]);
    CHECK(three.data[3 * i] == three.data[3 * i + 2]);
  }
  DecodeOptions one;
  one.channels = 1;
  CHECK(Decode(jpeg, one).data.size() == 256);

  // Adobe stores inverted ink: C 0, M and Y full, K 0 is 255, 0, 0, 255 in the file, which is red.
  std::vector<std::uint8_t> cmyk;
  for (int i = 0; i < 256; ++i) cmyk.insert(cmyk.end(), {255, 0, 0, 255});
  const std::string ink = Encode(cmyk, 16, 16, 4, JCS_CMYK);
  const auto red = Decode(ink);
  REQUIRE(red.fault == FaultClass::kNone);
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK(red.data[3 * i] >= 252);
    CHECK(red.data[3 * i + 1] <= 3);
    CHECK(red.data[3 * i + 2] <= 3);
  }
  CHECK(Decode(ink, one).fault == FaultClass::kBadImage);
}

TEST_CASE("a cut JPEG is refused wherever it is cut, and one with an end is not", "[image]") {
  std::vector<std::uint8_t> noise(64 * 64 * 3);
  std::uint32_t state = 1;
  for (auto& value : noise)
    value = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  for (const bool progressive : {false, true}) {
    const std::string jpeg = Encode(noise, 64, 64, 3, JCS_RGB, progressive ? Progressive : nullptr);
    REQUIRE(Decode(jpeg).fault == FaultClass::kNone);
    for (int eighth = 1; eighth < 8; ++eighth) {
      CHECK(Decode(jpeg.substr(0, jpeg.size() * static_cast<std::size_t>(eighth) / 8)).fault ==
            FaultClass::kBadImage);
    }
    CHECK(Decode(jpeg.substr(0, jpeg.size() - 1)).fault == FaultClass::kBadImage);
    CHECK(Decode(jpeg + "junk").fault == FaultClass::kNone);
  }
  // Zero bytes before a segment: the same pixels, and a warning that is counted and not printed.
  const std::string clean = Encode(noise, 64, 64, 3, JCS_RGB);
  std::string extra = clean;
  extra.insert(extra.find("\xff\xc4"), 7, '\0');
  const auto warned = Decode(extra);
  CHECK(warned.data == Decode(clean).data);
  CHECK(warned.counters.jpeg_warnings == 1);
}

TEST_CASE("guards are judged from the header", "[image]") {
  std::string huge = Flat(1, 2, 3);
  const std::size_t sof = huge.find("\xff\xc0");
  for (const std::size_t at : {5u, 7u}) {
    huge[sof + at] = '\xff';
    huge[sof + at + 1] = '\xdc';
  }
  CHECK(Decode(huge).fault == FaultClass::kImageTooLarge);
  DecodeOptions small;
  small.max_pixels = 255;
  CHECK(Decode(Flat(1, 2, 3), small).fault == FaultClass::kImageTooLarge);
  std::vector<std::uint8_t> pixels(64 * 64 * 3, 90);
  DecodeOptions few;
  few.max_scans = 2;
  CHECK(Decode(Encode(pixels, 64, 64, 3, JCS_RGB, Progressive), few).fault ==
        FaultClass::kTooManyScans);
}

TEST_CASE("the format is told by the leading bytes", "[image]") {
  const std::pair<std::string, const char*> cases[] = {{"\xff\xd8\xff\xe0", "JPEG"},
                                                       {"\x89PNG\r\n\x1a\n", "PNG"},
                                                       {"GIF89a", "GIF"},
                                                       {"BM....", "BMP"},
                                                       {"RIFF....WEBP", "WebP"},
                                                       {std::string("II*\0", 4), "TIFF"},
                                                       {"", "an unknown format"}};
  for (const auto& [bytes, name] : cases) CHECK(std::string(FormatName(Bytes(bytes))) == name);
}

ImageSpec SpecOf(std::vector<OpSpec> ops, OutType out = OutType::kUint8,
                 Layout layout = Layout::kNhwc) {
  ImageSpec spec;
  spec.ops = std::move(ops);
  spec.out = out;
  spec.layout = layout;
  return spec;
}

OpSpec Sized(OpSpec::Type type, std::uint32_t height, std::uint32_t width) {
  OpSpec op;
  op.type = type;
  op.height = height;
  op.width = width;
  return op;
}

template <typename T>
std::vector<T> Run(const ImageSpec& spec, const std::string& jpeg, std::int64_t row = 0,
                   std::uint32_t epoch = 0) {
  const auto program = ImageProgram::Compile(spec);
  INFO(program.status().message());
  REQUIRE(program.ok());
  std::vector<T> out((*program)->row_bytes() / sizeof(T));
  ImageWorker worker;
  ImageCounters counters;
  std::string detail;
  REQUIRE((*program)->Run(worker, Bytes(jpeg), 7, row, epoch, out.data(), &counters, &detail) ==
          FaultClass::kNone);
  return out;
}

TEST_CASE("layouts, dtypes and normalisation are one write of the same values", "[image]") {
  const std::string jpeg = Flat(200, 100, 50);
  OpSpec scale;
  scale.type = OpSpec::Type::kScale;
  scale.factor = 1.0f / 255.0f;
  const auto bytes = Run<std::uint8_t>(SpecOf({Sized(OpSpec::Type::kResize, 4, 6)}), jpeg);
  REQUIRE(bytes.size() == 72);
  const auto nhwc =
      Run<float>(SpecOf({Sized(OpSpec::Type::kResize, 4, 6), scale}, OutType::kFloat32), jpeg);
  const auto nchw = Run<float>(
      SpecOf({Sized(OpSpec::Type::kResize, 4, 6), scale}, OutType::kFloat32, Layout::kNchw), jpeg);
  for (std::size_t p = 0; p < 24; ++p) {
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(nhwc[3 * p + c] == nchw[24 * c + p]);
      CHECK(std::fabs(nhwc[3 * p + c] * 255.0f - static_cast<float>(bytes[3 * p + c])) < 0.51f);
    }
  }
  OpSpec normalize;
  normalize.type = OpSpec::Type::kNormalize;
  normalize.mean = {0.5f};
  normalize.std = {0.25f};
  const auto normal =
      Run<float>(SpecOf({Sized(OpSpec::Type::kResize, 1, 1), normalize}, OutType::kFloat32), jpeg);
  CHECK(std::fabs(normal[0] - (200.0f / 255.0f - 0.5f) / 0.25f) < 0.05f);
}

TEST_CASE("random crops and flips are drawn anew for each row and epoch, and again alike",
          "[image]") {
  std::vector<std::uint8_t> pixels(40 * 60 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i / 3 % 251);
  const std::string jpeg = Encode(pixels, 40, 60, 3, JCS_RGB);
  OpSpec flip;
  flip.type = OpSpec::Type::kFlipHorizontal;
  const auto spec = SpecOf({Sized(OpSpec::Type::kRandomResizedCrop, 16, 16), flip});
  std::set<std::vector<std::uint8_t>> seen;
  for (std::int64_t row = 0; row < 64; ++row) {
    const auto first = Run<std::uint8_t>(spec, jpeg, row, 0);
    CHECK(first == Run<std::uint8_t>(spec, jpeg, row, 0));
    seen.insert(first);
    seen.insert(Run<std::uint8_t>(spec, jpeg, row, 1));
  }
  CHECK(seen.size() > 120);
}

TEST_CASE("a mirrored image is the image, mirrored", "[image]") {
  std::vector<std::uint8_t> pixels(16 * 32 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i % 97 + 50);
  const std::string jpeg = Encode(pixels, 16, 32, 3, JCS_RGB);
  OpSpec flip;
  flip.type = OpSpec::Type::kFlipHorizontal;
  flip.probability = 1.0f;
  const auto crop = Sized(OpSpec::Type::kCenterCrop, 16, 32);
  const auto plain = Run<std::uint8_t>(SpecOf({crop}), jpeg);
  const auto mirrored = Run<std::uint8_t>(SpecOf({crop, flip}), jpeg);
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 32; ++x)
      CHECK(plain[(y * 32 + x) * 3] == mirrored[(y * 32 + 31 - x) * 3]);
  }
  // Cropping after the flip takes the mirrored place.
  OpSpec narrow = Sized(OpSpec::Type::kCenterCrop, 16, 8);
  CHECK(Run<std::uint8_t>(SpecOf({flip, narrow}), jpeg).size() == 16 * 8 * 3);
}

TEST_CASE("programs that make no sense are refused with a remedy", "[image]") {
  OpSpec scale;
  scale.type = OpSpec::Type::kScale;
  CHECK_FALSE(ImageProgram::Compile(SpecOf({})).ok());
  CHECK_FALSE(ImageProgram::Compile(SpecOf({Sized(OpSpec::Type::kResize, 0, 5)})).ok());
  CHECK_FALSE(ImageProgram::Compile(SpecOf({Sized(OpSpec::Type::kResizeShorter, 5, 0)})).ok());
  CHECK_FALSE(
      ImageProgram::Compile(SpecOf({scale, Sized(OpSpec::Type::kResize, 5, 5)}, OutType::kFloat32))
          .ok());
  CHECK_FALSE(ImageProgram::Compile(SpecOf({Sized(OpSpec::Type::kResize, 5, 5), scale})).ok());
}

// What a program says to one image.
FaultClass Answer(const ImageSpec& spec, const std::string& jpeg, std::string* detail) {
  const auto program = ImageProgram::Compile(spec);
  INFO(program.status().message());
  REQUIRE(program.ok());
  std::vector<std::uint8_t> out((*program)->row_bytes());
  ImageWorker worker;
  ImageCounters counters;
  return (*program)->Run(worker, Bytes(jpeg), 7, 0, 0, out.data(), &counters, detail);
}

TEST_CASE("a step whose result would fill the memory costs its row alone", "[image]") {
  const auto shorter = Sized(OpSpec::Type::kResizeShorter, 256, 0);
  const auto centre = Sized(OpSpec::Type::kCenterCrop, 8, 8);
  const auto lined = [](std::uint32_t height, std::uint32_t width) {
    return Encode(std::vector<std::uint8_t>(std::size_t{height} * width * 3, 90), height, width, 3,
                  JCS_RGB);
  };
  std::string detail;
  // 256 x 16,768,000 pixels.
  CHECK(Answer(SpecOf({shorter, centre}), lined(1, 65500), &detail) == FaultClass::kImageTooLarge);
  CHECK(detail.find("256 x 16768000") != std::string::npos);
  CHECK(Answer(SpecOf({shorter, centre}), lined(65500, 1), &detail) == FaultClass::kImageTooLarge);
  CHECK(Answer(SpecOf({shorter, centre}), lined(1, 20), &detail) == FaultClass::kNone);
  CHECK(Answer(SpecOf({Sized(OpSpec::Type::kResize, 65536, 65536), centre}), Flat(1, 2, 3),
               &detail) == FaultClass::kImageTooLarge);
  // 65,536 x 65,536 is 2^32 beside a side of 1: counted in 64 bits.
  CHECK(Answer(SpecOf({Sized(OpSpec::Type::kResize, 65536, 1),
                       Sized(OpSpec::Type::kResizeShorter, 65536, 0), centre}),
               Flat(1, 2, 3), &detail) == FaultClass::kImageTooLarge);
  auto padded = Sized(OpSpec::Type::kRandomCrop, 8, 8);
  padded.padding = 65536;
  CHECK(Answer(SpecOf({padded}), Flat(1, 2, 3), &detail) == FaultClass::kImageTooLarge);
  padded.padding = 4;
  CHECK(Answer(SpecOf({padded}), Flat(1, 2, 3), &detail) == FaultClass::kNone);
}

TEST_CASE("numbers that are not finite are refused before any image is read", "[image]") {
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  const auto size = Sized(OpSpec::Type::kResize, 5, 5);
  for (const float value : bad) {
    auto crop = Sized(OpSpec::Type::kRandomResizedCrop, 8, 8);
    crop.crop.ratio_max = value;
    CHECK_FALSE(ImageProgram::Compile(SpecOf({crop})).ok());
    crop.crop.ratio_min = value;
    CHECK_FALSE(ImageProgram::Compile(SpecOf({crop})).ok());
    OpSpec scale;
    scale.type = OpSpec::Type::kScale;
    scale.factor = value;
    CHECK_FALSE(ImageProgram::Compile(SpecOf({size, scale}, OutType::kFloat32)).ok());
    OpSpec normalize;
    normalize.type = OpSpec::Type::kNormalize;
    normalize.std = {value};
    CHECK_FALSE(ImageProgram::Compile(SpecOf({size, normalize}, OutType::kFloat32)).ok());
  }
}

TEST_CASE("a limit of bytes may be any number", "[image]") {
  std::vector<std::uint8_t> pixels(64 * 64 * 3, 90);
  const std::string jpeg = Encode(pixels, 64, 64, 3, JCS_RGB, Progressive);
  DecodeOptions options;
  for (const std::uint64_t limit :
       {std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    options.max_decoded_bytes = limit;
    CHECK(Decode(jpeg, options).fault == FaultClass::kNone);
  }
}

TEST_CASE("our own exp and log are close to the true ones", "[image]") {
  for (double x = -2.0; x <= 2.0; x += 0.01)
    CHECK(std::fabs(DrawExp(x) / std::exp(x) - 1.0) < 1e-13);
  for (double x = 0.01; x < 100; x *= 1.1) CHECK(std::fabs(DrawLog(x) - std::log(x)) < 1e-13 * 10);
}

}  // namespace
}  // namespace stoker::image
