// Real JPEGs: every complete one decodes to djpeg's bytes, at both DCT methods; CMYK and YCCK
// follow another rule and are left out.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/image/jpeg.h"
#include "tests/support/catch.h"
#include "tests/support/test_data.h"

namespace stoker::image {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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

TEST_CASE("complete JPEGs decode to djpeg's bytes", "[image][data]") {
  int same = 0;
  int refused = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::DataDir() / "jpeg")) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = ReadFile(entry.path());
    CAPTURE(entry.path().string());
    for (const bool fast : {false, true}) {
      DecodeOptions options;
      options.fast_dct = fast;
      Pixels pixels;
      ImageCounters counters;
      std::string detail;
      const FaultClass fault =
          DecodeJpeg(std::as_bytes(std::span(bytes)), options, &pixels, &counters, &detail);
      if (fault != FaultClass::kNone) {
        ++refused;
        continue;
      }
      const std::string ppm = Djpeg(entry.path(), fast ? "fast" : "int");
      if (ppm.empty()) continue;  // CMYK: djpeg does not convert it
      const std::string header =
          "P6\n" + std::to_string(pixels.width) + " " + std::to_string(pixels.height) + "\n255\n";
      REQUIRE(ppm.compare(0, header.size(), header) == 0);
      REQUIRE(ppm.size() - header.size() == pixels.data.size());
      REQUIRE(std::equal(pixels.data.begin(), pixels.data.end(),
                         ppm.begin() + static_cast<std::ptrdiff_t>(header.size()),
                         [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
      ++same;
    }
  }
  CHECK(same >= 150);
  CHECK(refused > 0);
}

}  // namespace
}  // namespace stoker::image
