// What TensorFlow, torchvision and Pillow answered for 2,100 resizes: ours gives the profile's
// numbers within the bounds of the semantics page.
#include <cmath>
#include <map>

#include "tests/unit/image/golden.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

const std::map<std::string, Method> kMethods = {
    {"bilinear", Method::kBilinear},    {"bicubic", Method::kBicubic},
    {"lanczos3", Method::kLanczos3},    {"area", Method::kArea},
    {"tf nearest", Method::kNearest},   {"nearest-exact", Method::kNearest},
    {"nearest", Method::kNearestFloor},
};

// Ours against theirs: the largest difference.
float Compare(const Array& in, const Array& out, const Kernel& kernel) {
  const bool whole = out.dtype == "uint8";
  const bool overshoots =
      kernel.profile == Profile::kTorchvision && kernel.method == Method::kBicubic;
  const auto ours = Resize(in.values, in.height, in.width, in.channels, out.height, out.width,
                           kernel, whole && overshoots ? 255.0f : 0.0f);
  REQUIRE(ours.size() == out.values.size());
  float most = 0.0f;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const float value = whole ? std::nearbyint(std::clamp(ours[i], 0.0f, 255.0f)) : ours[i];
    most = std::max(most, std::fabs(value - out.values[i]));
  }
  return most;
}

std::map<std::string, Array> Inputs(const std::vector<Json>& rows) {
  std::map<std::string, Array> inputs;
  for (const Json& row : rows) {
    if (row["kind"] == "input") inputs[row["id"]] = ToArray(row["data"]);
  }
  return inputs;
}

TEST_CASE("resizes are TensorFlow's", "[image][golden]") {
  const auto rows = ReadLines("resize.jsonl");
  const auto inputs = Inputs(rows);
  Counts counts;
  for (const Json& row : rows) {
    if (row["kind"] != "tf") continue;
    std::string name = row["method"];
    const Method method = kMethods.at(name == "nearest" ? "tf nearest" : name);
    const bool antialias = row["antialias"];
    if (antialias) name += " antialias";
    CAPTURE(row["input"], row["method"], row["size"], antialias);
    const float off =
        Compare(inputs.at(row["input"]), ToArray(row["out"]), {method, antialias, Profile::kTf});
    CHECK(off <= (method == Method::kNearest ? 0.0f : 1e-3f));
    ++counts[name];
  }
  CHECK(Text(counts) == Text({{"nearest", 63},
                              {"bilinear", 63},
                              {"bilinear antialias", 63},
                              {"bicubic", 63},
                              {"bicubic antialias", 63},
                              {"lanczos3", 63},
                              {"lanczos3 antialias", 63},
                              {"area", 63}}));
}

TEST_CASE("resizes are torchvision's", "[image][golden]") {
  const auto inputs = Inputs(ReadLines("resize.jsonl"));
  Counts counts;
  for (const Json& row : ReadLines("torchvision.jsonl")) {
    if (row["kind"] != "resize") continue;
    std::string name = row["method"];
    const Method method = kMethods.at(name);
    const bool antialias = row["antialias"] == true;
    if (antialias) name += " antialias";
    CAPTURE(row["input"], row["method"], row["size"], antialias);
    const Array out = ToArray(row["out"]);
    const float off =
        Compare(inputs.at(row["input"]), out, {method, antialias, Profile::kTorchvision});
    const bool nearest = method == Method::kNearest || method == Method::kNearestFloor;
    CHECK(off <= (nearest ? 0.0f : out.dtype == "uint8" ? 1.0f : 1e-3f));
    ++counts[name];
  }
  CHECK(Text(counts) == Text({{"nearest", 63},
                              {"nearest-exact", 63},
                              {"bilinear", 63},
                              {"bilinear antialias", 63},
                              {"bicubic", 63},
                              {"bicubic antialias", 63}}));
}

TEST_CASE("the rows of Pillow and of the older torchvision are for reference only",
          "[image][golden]") {
  const auto rows = ReadLines("resize.jsonl");
  const auto inputs = Inputs(rows);
  int bilinear = 0;
  int reference = 0;
  for (const Json& row : rows) {
    if (row["kind"] == "torchvision") ++reference;
    if (row["kind"] != "pillow") continue;
    ++reference;
    if (row["filter"] != "BILINEAR" || !row["box_xyxy"].is_null()) continue;
    CAPTURE(row["input"], row["size"]);
    const Array out = ToArray(row["out"]);
    if (out.dtype != "uint8") continue;
    CHECK(Compare(inputs.at(row["input"]), out, Kernel()) <= 1.0f);
    ++bilinear;
  }
  CHECK(reference == 570 + 285);
  CHECK(bilinear == 51);
}

}  // namespace
}  // namespace stoker::image
