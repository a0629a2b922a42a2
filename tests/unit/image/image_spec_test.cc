// From a spec's text to an image program: which draws an op takes, and which specs are refused.
#include "daemon/pipeline/image_spec.h"

#include <google/protobuf/text_format.h>

#include "config/spec.h"
#include "daemon/pipeline/image_groups.h"
#include "tests/support/catch.h"

namespace stoker::pipeline {
namespace {

v1::Tensor Parse(const std::string& text) {
  v1::Tensor tensor;
  REQUIRE(google::protobuf::TextFormat::ParseFromString("name: \"t\" image { channels: 3 } " + text,
                                                        &tensor));
  return tensor;
}

TEST_CASE("an op is numbered by its place in the spec's text", "[image]") {
  const auto spec = ToImageSpec(Parse(R"(
    dtype: UINT8
    op { cast { dtype: UINT8 } } op { random_flip_horizontal {} }
    op { random_crop { height: 8 width: 8 } })"),
                                40);
  REQUIRE(spec.ok());
  REQUIRE(spec->ops.size() == 2);
  CHECK(spec->ops[0].number == 41);
  CHECK(spec->ops[1].number == 42);
}

TEST_CASE("the profile decides what an op leaves unsaid", "[image]") {
  const std::string ops = "dtype: FLOAT32 op { random_resized_crop { height: 8 width: 8 } }";
  const auto torch = ToImageSpec(Parse(ops), 0);
  REQUIRE(torch.ok());
  CHECK(torch->ops[0].antialias);
  CHECK(torch->ops[0].rule == image::CropRule::kTorchvision);
  v1::Tensor tensor = Parse(ops);
  tensor.mutable_image()->set_profile(v1::Image::TF);
  const auto tf = ToImageSpec(tensor, 0);
  REQUIRE(tf.ok());
  CHECK_FALSE(tf->ops[0].antialias);
  CHECK(tf->ops[0].rule == image::CropRule::kTf);
}

TEST_CASE("every op of images reaches the program", "[image]") {
  const auto spec = ToImageSpec(Parse(R"(
    dtype: UINT16
    op { random_crop { height: 8 width: 8 } }
    op { color_jitter { brightness: 0.1 contrast: 0.2 saturation: 0.3 hue: 0.4 } }
    op { random_grayscale { probability: 0.2 } }
    op { random_brightness { max_delta: 0.1 } }
    op { random_contrast { lower: 0.5 upper: 2 } }
    op { random_saturation { lower: 0.5 upper: 2 } }
    op { random_hue { max_delta: 0.1 } }
    op { random_erasing { scale: [0.1, 0.2] } }
    op { cutout { size: 4 value: 9 } })"),
                                0);
  REQUIRE(spec.ok());
  CHECK(spec->decode.deep);
  CHECK(spec->ops.size() == 9);
  CHECK(spec->ops[1].hue == 0.4f);
  CHECK(spec->ops[3].lower == -0.1f);
  CHECK(spec->ops[7].crop.scale_max == 0.2f);
  CHECK(spec->ops[8].value == 9.0f);
  CHECK(image::ImageProgram::Compile(*spec).ok());
}

TEST_CASE("members of a group crop and flip at the same places", "[image][group]") {
  const std::string crop = "group: \"g\" op { random_resized_crop { height: 8 width: 8 } } ";
  const v1::Tensor image = Parse(crop + "op { color_jitter { hue: 0.1 } }");
  const v1::Tensor mask = Parse(
      "group: \"g\" op { random_resized_crop { height: 8 width: 8 method: NEAREST } } "
      "op { resize { height: 4 width: 4 } }");
  ImageGroups groups;
  REQUIRE(groups.Join(image, 5).ok());
  REQUIRE(groups.Join(mask, 7).ok());
  CHECK(groups.first_op("g") == 5);
  CHECK(groups.number("g") == 1);
  CHECK_FALSE(groups.Join(Parse(crop + "op { random_flip_vertical {} }"), 9).ok());
  CHECK_FALSE(groups
                  .Join(Parse("op { random_resized_crop { height: 8 width: 9 } } "
                              "group: \"g\""),
                        9)
                  .ok());
  CHECK_FALSE(groups.Join(Parse("group: \"g\" op { resize { height: 9 width: 9 } }"), 9).ok());
}

}  // namespace
}  // namespace stoker::pipeline
