// Real JPEGs: every complete one decodes to djpeg's bytes, at both DCT methods, and by window to
// the same; CMYK and YCCK follow another rule than djpeg.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include "tests/support/catch.h"
#include "tests/unit/image/golden.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

// djpeg's PPM of a file, or nothing where it fails.
std::string Djpeg(const std::filesystem::path& path, const char* dct) {
  const std::string command =
      std::string("djpeg -rgb -pnm -dct ") + dct + " '" + path.string() + "' 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[1 << 16];
  std::size_t n = 0;
  while ((n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0) out.append(buffer, n);
  return pclose(pipe) == 0 ? out : "";
}

std::vector<std::filesystem::path> Files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("complete JPEGs decode to djpeg's bytes", "[image][data]") {
  int same = 0;
  int refused = 0;
  for (const auto& path : Files(test::DataDir() / "jpeg")) {
    const std::string bytes = ReadFile(path);
    CAPTURE(path.string());
    for (const bool fast : {false, true}) {
      DecodeOptions options;
      options.fast_dct = fast;
      const Decoded image = Decode(bytes, options);
      if (image.fault != FaultClass::kNone) {
        ++refused;
        continue;
      }
      const std::string ppm = Djpeg(path, fast ? "fast" : "int");
      if (ppm.empty()) continue;  // CMYK: djpeg does not convert it
      const std::string header =
          "P6\n" + std::to_string(image.width) + " " + std::to_string(image.height) + "\n255\n";
      REQUIRE(ppm.compare(0, header.size(), header) == 0);
      REQUIRE(ppm.size() - header.size() == image.data.size());
      REQUIRE(std::equal(image.data.begin(), image.data.end(),
                         ppm.begin() + static_cast<std::ptrdiff_t>(header.size()),
                         [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
      ++same;
    }
  }
  CHECK(same >= 150);
  CHECK(refused > 0);
}

TEST_CASE("windows of real and of damaged JPEGs are those of the full decode", "[image][data]") {
  std::vector<std::filesystem::path> files = Files(test::DataDir() / "jpeg");
  const auto damaged = Files(test::GoldenDir() / "image" / "damage");
  files.insert(files.end(), damaged.begin(), damaged.end());
  std::mt19937 random(23);
  int windows = 0;
  for (const auto& path : files) {
    const std::string bytes = ReadFile(path);
    CAPTURE(path.string());
    DecodeOptions options;
    options.tolerant = true;
    options.max_pixels = 1000000;
    const Decoded full = Decode(bytes, options);
    if (full.fault != FaultClass::kNone) continue;
    for (int i = 0; i < 12; ++i, ++windows) {
      Window window;
      window.h = 1 + static_cast<std::uint32_t>(random() % full.height);
      window.w = 1 + static_cast<std::uint32_t>(random() % full.width);
      window.y = static_cast<std::uint32_t>(random() % (full.height - window.h + 1));
      window.x = static_cast<std::uint32_t>(random() % (full.width - window.w + 1));
      CAPTURE(window.y, window.x, window.h, window.w);
      REQUIRE(Decode(bytes, options, &window).data == Crop(full, 3, window));
    }
  }
  CHECK(windows > 2000);
}

}  // namespace
}  // namespace stoker::image
