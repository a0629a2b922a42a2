// Where random crops fall, against 20,000 draws of the real programs by chi-squared, and the sizes
// that follow from an image's.
#include <algorithm>
#include <array>
#include <cmath>

#include "daemon/image/crops.h"
#include "tests/unit/image/golden.h"

namespace stoker::image {
namespace {

constexpr int kDraws = 20000;

// numpy's: the last bin takes its right edge.
std::vector<int> Histogram(const std::vector<double>& values, const std::vector<double>& edges) {
  std::vector<int> counts(edges.size() - 1);
  for (const double value : values) {
    if (value < edges.front() || value > edges.back()) continue;
    const auto next = std::upper_bound(edges.begin(), edges.end(), value);
    const auto bin = static_cast<std::size_t>(next - edges.begin());
    ++counts[std::min(bin, counts.size()) - 1];
  }
  return counts;
}

// Chi-squared of two samples, over the bins that hold enough; compared with what one in a million
// pairs of one distribution would exceed (Wilson and Hilferty's approximation).
void CompareCounts(const std::vector<int>& ours, const std::vector<int>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  double a = 0;
  double b = 0;
  for (const int n : ours) a += n;
  for (const int n : theirs) b += n;
  if (a == 0 || b == 0) {
    CHECK(a == b);
    return;
  }
  double chi = 0;
  int bins = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double all = ours[i] + theirs[i];
    if (all == 0) continue;
    const double off = ours[i] * std::sqrt(b / a) - theirs[i] * std::sqrt(a / b);
    if (all < 10) {
      CHECK(std::fabs(off) < 12);
      continue;
    }
    chi += off * off / all;
    ++bins;
  }
  if (bins < 2) return;
  const double freedom = bins - 1;
  const double third = 1 - 2 / (9 * freedom) + 4.75 * std::sqrt(2 / (9 * freedom));
  CHECK(chi < freedom * third * third * third);
}

void CompareDraws(const Json& theirs, const std::vector<Window>& draws) {
  const std::uint32_t height = theirs["size_hw"][0];
  const std::uint32_t width = theirs["size_hw"][1];
  std::map<std::string, std::vector<double>> ours;
  int whole = 0;
  int y_last = 0;
  int x_last = 0;
  int y_free = 0;
  int x_free = 0;
  for (const Window& d : draws) {
    const bool is_whole = d.h == height && d.w == width;
    whole += is_whole ? 1 : 0;
    ours["height"].push_back(d.h);
    ours["width"].push_back(d.w);
    if (!is_whole) ours["aspect_w_over_h"].push_back(static_cast<double>(d.w) / d.h);
    ours["area_share"].push_back(std::min(1.0, static_cast<double>(d.h) * d.w / height / width));
    if (d.h < height) {
      ours["y_share_of_free"].push_back(static_cast<double>(d.y) / (height - d.h));
      y_last += d.y == height - d.h ? 1 : 0;
      ++y_free;
    }
    if (d.w < width) {
      ours["x_share_of_free"].push_back(static_cast<double>(d.x) / (width - d.w));
      x_last += d.x == width - d.w ? 1 : 0;
      ++x_free;
    }
  }
  for (const char* name :
       {"height", "width", "aspect_w_over_h", "area_share", "y_share_of_free", "x_share_of_free"}) {
    CAPTURE(name);
    CompareCounts(Histogram(ours[name], theirs[name]["edges"].get<std::vector<double>>()),
                  theirs[name]["counts"].get<std::vector<int>>());
  }
  const auto pair = [&](int hit, int of, const char* name, const char* free) {
    CAPTURE(name);
    const int their_hits = theirs[name];
    const int their_free = theirs[free]["of"];
    CompareCounts({hit, of - hit}, {their_hits, their_free - their_hits});
  };
  pair(y_last, y_free, "y_at_last_offset", "y_share_of_free");
  pair(x_last, x_free, "x_at_last_offset", "x_share_of_free");
  const int their_whole = theirs["whole_image"];
  CompareCounts({whole, kDraws - whole}, {their_whole, kDraws - their_whole});
  if (!theirs.contains("every_yxhw_and_count")) return;
  std::map<std::array<std::uint32_t, 4>, std::pair<int, int>> windows;
  for (const Window& d : draws) ++windows[{d.y, d.x, d.h, d.w}].first;
  for (const Json& entry : theirs["every_yxhw_and_count"]) {
    windows[{entry[0], entry[1], entry[2], entry[3]}].second += entry[4].get<int>();
  }
  std::vector<int> a;
  std::vector<int> b;
  for (const auto& [window, counts] : windows) {
    a.push_back(counts.first);
    b.push_back(counts.second);
  }
  CompareCounts(a, b);
}

TEST_CASE("random crops fall as TensorFlow's and torchvision's do", "[image][golden]") {
  const Json all = Json::parse(ReadFile(test::GoldenDir() / "image" / "crop.json"));
  Counts counts;
  for (const char* library : {"tf", "torchvision"}) {
    for (const Json& row : all[library]) {
      CAPTURE(library, row["size_hw"], row["area_range"]);
      CropRanges ranges;
      ranges.scale_min = row["area_range"][0];
      ranges.scale_max = row["area_range"][1];
      const bool tf = std::string(library) == "tf";
      if (tf) {
        ranges.max_attempts = row["max_attempts"];
        ranges.min_object_covered = row["min_object_covered"];
      }
      std::vector<Window> draws;
      for (int i = 0; i < kDraws; ++i) {
        RowRandom random(99, i, 0, 0);
        const std::uint32_t height = row["size_hw"][0];
        const std::uint32_t width = row["size_hw"][1];
        draws.push_back(tf ? DrawTfCrop(ranges, height, width, &random)
                           : DrawTorchvisionCrop(ranges, height, width, &random));
        REQUIRE(draws.back().y + draws.back().h <= height);
        REQUIRE(draws.back().x + draws.back().w <= width);
      }
      CompareDraws(row, draws);
      ++counts[library];
    }
  }
  CHECK(Text(counts) == Text({{"tf", 15}, {"torchvision", 5}}));
}

TEST_CASE("sides and centres are rounded as torchvision rounds them", "[image][golden]") {
  Counts counts;
  for (const Json& row : ReadLines("resize.jsonl")) {
    if (row["kind"] != "size") continue;
    const std::string op = row["op"];
    CAPTURE(row.dump());
    const std::uint32_t height = row["input"][0];
    const std::uint32_t width = row["input"][1];
    if (op == "torchvision_center_crop") {
      const std::uint32_t to_height = row["target"][0];
      const std::uint32_t to_width = row["target"][1];
      CHECK(CentreOffset(height, to_height) == row["out"][0]);
      CHECK(CentreOffset(width, to_width) == row["out"][1]);
      ++counts[op];
    }
    if (op == "torchvision_resize_int" && row["max_size"].is_null()) {
      const std::uint64_t size = row["target"];
      CHECK(LongerSide(size, std::min(height, width), height) == row["out"][0]);
      CHECK(LongerSide(size, std::min(height, width), width) == row["out"][1]);
      ++counts[op];
    }
  }
  CHECK(Text(counts) == Text({{"torchvision_center_crop", 60}, {"torchvision_resize_int", 45}}));
}

}  // namespace
}  // namespace stoker::image
