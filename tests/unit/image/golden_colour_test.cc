// What TensorFlow and torchvision answered for brightness, contrast, saturation, hue, gray and
// normalisation: ours is theirs, to the level for whole numbers and to 1e-5 of the range for
// floats.
#include <cmath>

#include "daemon/image/colour.h"
#include "daemon/image/image_program.h"
#include "tests/unit/image/golden.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

std::map<std::string, Array> Inputs(const std::vector<Json>& rows) {
  std::map<std::string, Array> inputs;
  for (const Json& row : rows) {
    if (row["kind"] == "input") inputs[row["id"]] = ToArray(row["data"]);
  }
  return inputs;
}

// The largest difference of ours from theirs, as a share of the range for floats.
template <typename F>
float Off(const Array& in, const Array& out, F adjust) {
  std::vector<float> pixels(std::size_t{in.height} * in.width * kStep);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t c = std::min<std::size_t>(i % kStep, in.channels - 1);
    pixels[i] = in.values[i / kStep * in.channels + c];
  }
  Canvas canvas = {pixels.data(), in.height, in.width, in.channels == 1 ? 1u : 3u, 1.0f, false};
  if (in.dtype == "uint8") {
    canvas.range = 255.0f;
    canvas.whole = true;
  }
  adjust(canvas);
  float most = 0.0f;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const float ours = pixels[i / out.channels * kStep + i % out.channels];
    most = std::max(most, std::fabs(ours - out.values[i]));
  }
  return most;
}

void Adjust(const std::string& op, double value, const Canvas& canvas) {
  const auto single = static_cast<float>(value);
  if (op == "brightness") AdjustBrightness(canvas, value);
  if (op == "contrast") AdjustContrast(canvas, value);
  if (op == "saturation") AdjustSaturation(canvas, value);
  if (op == "hue") AdjustHue(canvas, single);
  if (op == "gray") MakeGray(canvas);
  if (op == "adjust_brightness") AdjustTfBrightness(canvas, single);
  if (op == "adjust_contrast") AdjustTfContrast(canvas, single);
  if (op == "adjust_saturation") AdjustTfSaturation(canvas, single);
  if (op == "adjust_hue") AdjustTfHue(canvas, single);
}

TEST_CASE("colour is torchvision's", "[image][golden]") {
  const auto inputs = Inputs(ReadLines("resize.jsonl"));
  Counts counts;
  for (const Json& row : ReadLines("torchvision.jsonl")) {
    if (row["kind"] != "colour") continue;
    const std::string op = row["op"];
    if (op == "to_float" || op == "normalize") continue;
    const double value = row["factor"].is_null() ? 0.0 : row["factor"].get<double>();
    CAPTURE(op, row["input"], value);
    const Array& in = inputs.at(row["input"]);
    const float off = Off(in, ToArray(row["out"]), [&](const auto& c) { Adjust(op, value, c); });
    CHECK(off <= (in.dtype == "uint8" ? 0.0f : 1e-5f));
    ++counts[op];
  }
  CHECK(Text(counts) ==
        Text({{"brightness", 35}, {"contrast", 35}, {"saturation", 35}, {"hue", 35}, {"gray", 7}}));
}

TEST_CASE("colour is TensorFlow's", "[image][golden]") {
  const auto rows = ReadLines("colour.jsonl");
  const auto inputs = Inputs(rows);
  Counts counts;
  for (const Json& row : rows) {
    if (row["kind"] != "tf" || !row.contains("input") || !row.contains("value")) continue;
    const std::string op = row["function"];
    const double value = row["value"];
    CAPTURE(op, row["input"], value);
    const Array& in = inputs.at(row["input"]);
    const float off = Off(in, ToArray(row["out"]), [&](const auto& c) { Adjust(op, value, c); });
    CHECK(off <= (in.dtype == "uint8" ? 0.0f : 1e-5f));
    ++counts[op];
  }
  CHECK(Text(counts) == Text({{"adjust_brightness", 21},
                              {"adjust_contrast", 28},
                              {"adjust_saturation", 28},
                              {"adjust_hue", 28}}));
}

TEST_CASE("scale and normalize are torchvision's to_float and normalize", "[image][golden]") {
  const auto inputs = Inputs(ReadLines("resize.jsonl"));
  Counts counts;
  for (const Json& row : ReadLines("torchvision.jsonl")) {
    if (row["kind"] != "colour" || (row["op"] != "to_float" && row["op"] != "normalize")) continue;
    const Array& in = inputs.at(row["input"]);
    const Array out = ToArray(row["out"]);
    if (in.dtype != "uint8") continue;
    Affine affine;
    for (std::size_t c = 0; c < 3; ++c) {
      const bool normal = row["op"] == "normalize";
      const double mean = normal ? row["mean"][c].get<double>() : 0.0;
      const double std = normal ? row["std"][c].get<double>() : 1.0;
      affine.factor[c] = static_cast<float>(1.0 / (std * 255.0));
      affine.offset[c] = static_cast<float>(-mean / std);
    }
    std::vector<float> pixels((in.values.size() / in.channels + 3) * kStep);
    for (std::size_t i = 0; i < in.values.size(); ++i) {
      pixels[i / in.channels * kStep + i % in.channels] = in.values[i];
    }
    Taps rows;
    Taps columns;
    MakeIdentity(in.height, &rows);
    MakeIdentity(in.width, &columns);
    std::vector<float> ours(out.values.size());
    Sink sink;
    sink.out = ours.data();
    sink.channels = in.channels;
    Resampler().Run({nullptr, pixels.data(), in.width * kStep, in.height, in.width}, rows, columns,
                    affine, sink);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(std::fabs(ours[i] - out.values[i]) < 1e-6f * 4);
    }
    ++counts[row["op"]];
  }
  CHECK(Text(counts) == Text({{"to_float", 7}, {"normalize", 7}}));
}

}  // namespace
}  // namespace stoker::image
