// A window of an image is the same window of the whole image, pixel for pixel, however the file
// is coded.
#include <random>

#include "daemon/image/jpeg.h"
#include "tests/support/catch.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

Window AnyWindow(std::uint32_t height, std::uint32_t width, std::mt19937* random) {
  const auto below = [random](std::uint32_t n) {
    return static_cast<std::uint32_t>((*random)() % n);
  };
  Window window;
  window.h = 1 + below(height);
  window.w = 1 + below(width);
  window.y = below(height - window.h + 1);
  window.x = below(width - window.w + 1);
  return window;
}

struct Factors {
  int h[3];
  int v[3];
};

TEST_CASE("a window equals the crop of the full decode, for every sampling and coding", "[image]") {
  const Factors samplings[] = {
      {{1, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {2, 1, 1}},
      {{1, 1, 1}, {2, 1, 1}}, {{4, 1, 1}, {1, 1, 1}}, {{4, 1, 1}, {2, 1, 1}},
      {{1, 1, 1}, {4, 1, 1}}, {{2, 1, 1}, {4, 1, 1}}, {{3, 1, 1}, {1, 1, 1}},
      {{2, 2, 1}, {2, 1, 2}}, {{2, 1, 2}, {1, 1, 1}}, {{1, 2, 1}, {1, 2, 1}},
  };
  std::mt19937 random(20);
  int windows = 0;
  for (const Factors& factors : samplings) {
    for (int coding = 0; coding < 4; ++coding) {
      const std::uint32_t height = 40 + random() % 60;
      const std::uint32_t width = 40 + random() % 90;
      const std::string jpeg =
          Encode(Scene(height, width, 3), height, width, 3, JCS_RGB, [&](auto* cinfo) {
            for (int c = 0; c < 3; ++c) {
              cinfo->comp_info[c].h_samp_factor = factors.h[c];
              cinfo->comp_info[c].v_samp_factor = factors.v[c];
            }
            if (coding == 1) Progressive(cinfo);
            if (coding == 2) cinfo->restart_interval = 3;
            if (coding == 3) cinfo->arith_code = TRUE;
          });
      DecodeOptions options;
      options.fast_dct = random() % 2 == 0;
      options.channels = random() % 4 == 0 ? 1 : 3;
      const Decoded full = Decode(jpeg, options);
      REQUIRE(full.fault == FaultClass::kNone);
      for (int i = 0; i < 45; ++i, ++windows) {
        const Window window = AnyWindow(height, width, &random);
        CAPTURE(factors.h[0], factors.v[0], coding, height, width, options.channels);
        CAPTURE(window.y, window.x, window.h, window.w);
        REQUIRE(Decode(jpeg, options, &window).data == Crop(full, options.channels, window));
      }
    }
  }
  CHECK(windows == 2160);
}

TEST_CASE("a window of gray, of RGB and of CMYK is that of the full decode", "[image]") {
  std::mt19937 random(21);
  const std::pair<J_COLOR_SPACE, std::uint32_t> spaces[] = {
      {JCS_GRAYSCALE, 1}, {JCS_RGB, 3}, {JCS_CMYK, 4}};
  for (const auto& [space, components] : spaces) {
    const std::string jpeg =
        Encode(Scene(61, 83, components), 61, 83, static_cast<int>(components), space,
               [&](auto* cinfo) { jpeg_set_colorspace(cinfo, cinfo->in_color_space); });
    const Decoded full = Decode(jpeg);
    REQUIRE(full.fault == FaultClass::kNone);
    for (int i = 0; i < 40; ++i) {
      const Window window = AnyWindow(61, 83, &random);
      CAPTURE(components, window.y, window.x, window.h, window.w);
      REQUIRE(Decode(jpeg, {}, &window).data == Crop(full, 3, window));
    }
  }
}

// The blocks of a picture of 2 x 3, as each orientation shows them, row by row.
const std::vector<std::vector<int>> kShown = {{},
                                              {0, 1, 2, 3, 4, 5},
                                              {2, 1, 0, 5, 4, 3},
                                              {5, 4, 3, 2, 1, 0},
                                              {3, 4, 5, 0, 1, 2},
                                              {0, 3, 1, 4, 2, 5},
                                              {3, 0, 4, 1, 5, 2},
                                              {5, 2, 4, 1, 3, 0},
                                              {2, 5, 1, 4, 0, 3}};

// A TIFF structure that says nothing but the orientation.
std::string Tiff(int orientation) {
  std::string tiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  tiff += static_cast<char>(orientation);
  return tiff + std::string(6, '\0');
}

// Blocks of 16 x 16 pixels, flat: block (y, x) holds 40 * (3 * y + x) + 20.
std::vector<std::uint8_t> Blocks() {
  std::vector<std::uint8_t> gray(32 * 48);
  for (std::size_t i = 0; i < gray.size(); ++i) {
    gray[i] = static_cast<std::uint8_t>(40 * (3 * (i / 48 / 16) + i % 48 / 16) + 20);
  }
  return gray;
}

void CheckTurned(const std::string& bytes, int orientation, bool deep) {
  CAPTURE(orientation, deep);
  std::mt19937 random(22);
  DecodeOptions options;
  options.orient = true;
  options.channels = 1;
  options.deep = deep;
  const Decoded image = Decode(bytes, options);
  REQUIRE(image.fault == FaultClass::kNone);
  const bool good = orientation >= 1 && orientation <= 8;
  CHECK(image.counters.jpeg_warnings + image.counters.png_warnings == (good ? 0 : 1));
  const auto& blocks = kShown[good ? static_cast<std::size_t>(orientation) : 1];
  const std::uint32_t columns = orientation >= 5 && good ? 2 : 3;
  REQUIRE(image.width == columns * 16);
  REQUIRE(image.height == 96 / columns);
  for (std::uint32_t b = 0; b < 6; ++b) {
    const std::size_t at = (b / columns * 16 + 8) * image.width + b % columns * 16 + 8;
    const int value = deep ? image.values[at] / 257 : image.data[at];
    CHECK(value == 40 * blocks[b] + 20);
  }
  for (int i = 0; i < 20 && !deep; ++i) {
    const Window window = AnyWindow(image.height, image.width, &random);
    REQUIRE(Decode(bytes, options, &window).data == Crop(image, 1, window));
  }
  options.orient = false;
  CHECK(Decode(bytes, options).width == 48);
}

TEST_CASE("a JPEG turned by its Exif orientation, whole and by window", "[image]") {
  const std::string plain = Encode(Blocks(), 32, 48, 1, JCS_GRAYSCALE);
  for (int orientation = 0; orientation <= 9; ++orientation) {
    const std::string exif = std::string("Exif\0\0", 6) + Tiff(orientation);
    const std::string length = {static_cast<char>(0), static_cast<char>(exif.size() + 2)};
    const std::string jpeg = plain.substr(0, 2) + "\xff\xe1" + length + exif + plain.substr(2);
    CheckTurned(jpeg, orientation, false);
    CheckTurned(jpeg, orientation, true);
  }
}

TEST_CASE("a PNG turned by its eXIf chunk, whole and by window", "[image]") {
  const std::vector<std::uint8_t> gray = Blocks();
  const std::string plain = EncodePng(gray, 32, 48);
  for (int orientation = 0; orientation <= 9; ++orientation) {
    // Behind the header, which takes 8 + 25 bytes.
    const std::string png =
        plain.substr(0, 33) + PngChunk("eXIf", Tiff(orientation)) + plain.substr(33);
    CheckTurned(png, orientation, false);
    CheckTurned(png, orientation, true);
  }
}

}  // namespace
}  // namespace stoker::image
