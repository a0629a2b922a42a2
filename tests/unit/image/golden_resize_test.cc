// What TensorFlow, torchvision and Pillow answered for 2,100 resizes: ours gives the profile's
// numbers within the bounds of the semantics page, or the method is refused by name.
#include <cmath>
#include <map>

#include "daemon/image/image_program.h"
#include "tests/unit/image/golden.h"

namespace stoker::image {
namespace {

const std::map<std::string, Method> kMethods = {
    {"bilinear", Method::kBilinear},    {"bicubic", Method::kBicubic},
    {"lanczos3", Method::kLanczos3},    {"area", Method::kArea},
    {"tf nearest", Method::kNearest},   {"nearest-exact", Method::kNearest},
    {"nearest", Method::kNearestFloor},
};

bool Served(Method method) {
  ImageSpec spec;
  OpSpec op;
  op.height = op.width = 8;
  op.method = method;
  spec.ops = {op};
  return ImageProgram::Compile(spec).ok();
}

struct Difference {
  float most = 0.0f;
  std::size_t count = 0;
};

Difference Resize(const Array& in, const Array& out, Method method, bool antialias) {
  View view{nullptr,   in.values.data(), std::size_t{in.width} * in.channels,
            in.height, in.width,         in.channels};
  Resampler resampler;
  std::vector<float> ours;
  resampler.Run(view, out.height, out.width, method, antialias, &ours);
  REQUIRE(ours.size() == out.values.size());
  Difference difference;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    float value = ours[i];
    if (out.dtype == "uint8") value = std::nearbyint(std::clamp(value, 0.0f, 255.0f));
    const float off = std::fabs(value - out.values[i]);
    difference.most = std::max(difference.most, off);
    difference.count += off > 0 ? 1 : 0;
  }
  return difference;
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
    if (!Served(method)) {
      ++counts[name + " refused"];
      continue;
    }
    CAPTURE(row["input"], row["method"], row["size"], antialias);
    const auto off = Resize(inputs.at(row["input"]), ToArray(row["out"]), method, antialias);
    CHECK(off.most <= (method == Method::kNearest ? 0.0f : 1e-3f));
    ++counts[name];
  }
  CHECK(Text(counts) == Text({{"nearest", 63},
                              {"bilinear", 63},
                              {"bilinear antialias", 63},
                              {"bicubic refused", 63},
                              {"bicubic antialias refused", 63},
                              {"lanczos3 refused", 63},
                              {"lanczos3 antialias refused", 63},
                              {"area refused", 63}}));
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
    if (!Served(method)) {
      ++counts[name + " refused"];
      continue;
    }
    CAPTURE(row["input"], row["method"], row["size"], antialias);
    const Array out = ToArray(row["out"]);
    const auto off = Resize(inputs.at(row["input"]), out, method, antialias);
    const bool nearest = method == Method::kNearest || method == Method::kNearestFloor;
    CHECK(off.most <= (nearest ? 0.0f : out.dtype == "uint8" ? 1.0f : 1e-3f));
    ++counts[name];
  }
  CHECK(Text(counts) == Text({{"nearest", 63},
                              {"nearest-exact", 63},
                              {"bilinear", 63},
                              {"bilinear antialias", 63},
                              {"bicubic refused", 63},
                              {"bicubic antialias refused", 63}}));
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
    CHECK(Resize(inputs.at(row["input"]), out, Method::kBilinear, true).most <= 1.0f);
    ++bilinear;
  }
  CHECK(reference == 570 + 285);
  CHECK(bilinear == 51);
}

}  // namespace
}  // namespace stoker::image
