// Operations on numbers, with literal values.
#include "daemon/pipeline/value_program.h"

#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "daemon/base/half.h"
#include "tests/support/catch.h"

namespace stoker::pipeline {
namespace {

v1::Tensor Tensor(const std::string& text) {
  v1::Tensor tensor;
  REQUIRE(google::protobuf::TextFormat::ParseFromString("name: \"t\" " + text, &tensor));
  return tensor;
}

template <typename T, typename In>
std::vector<T> Run(const std::string& text, v1::DType stored, const std::vector<In>& in,
                   std::vector<std::int64_t> shape) {
  const auto program = ValueProgram::Compile(Tensor(text), stored, shape, false);
  INFO(program.status().message());
  REQUIRE(program.ok());
  ValueScratch scratch;
  if constexpr (std::is_same_v<In, float>) {
    scratch.floats = in;
  } else {
    scratch.ints = in;
  }
  std::vector<T> out(in.size() * program->expansion());
  std::string detail;
  REQUIRE(program->Run(&scratch, out.data(), &detail) == FaultClass::kNone);
  return out;
}

TEST_CASE("floats become integers by truncation and saturation, NaN becomes 0", "[pipeline]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(Run<std::uint8_t, float>("dtype: UINT8 op { cast { dtype: UINT8 } }", v1::FLOAT32,
                                 {-1.5f, 1.9f, 254.99f, 256.0f, 1e30f, nan},
                                 {6}) == std::vector<std::uint8_t>{0, 1, 254, 255, 255, 0});
  CHECK(Run<std::int32_t, float>("dtype: INT32 op { cast { dtype: INT32 } }", v1::FLOAT32,
                                 {-2.9f, 3e9f, -3e9f},
                                 {3}) == std::vector<std::int32_t>{-2, INT32_MAX, INT32_MIN});
  CHECK(Run<std::int8_t, std::int64_t>("dtype: INT8 op { cast { dtype: INT8 } }", v1::INT64,
                                       {300, -300, 7},
                                       {3}) == std::vector<std::int8_t>{127, -128, 7});
  CHECK(Run<float, std::int64_t>("dtype: FLOAT32 op { cast { dtype: FLOAT32 } }", v1::INT64,
                                 {16777217}, {1}) == std::vector<float>{16777216.0f});
}

TEST_CASE("scale and normalize in float32, per last side", "[pipeline]") {
  CHECK(Run<float, float>("dtype: FLOAT32 op { scale { factor: 0.5 offset: 1 } }", v1::FLOAT32,
                          {2.0f, -4.0f}, {2}) == std::vector<float>{2.0f, -1.0f});
  CHECK(Run<float, float>("dtype: FLOAT32 op { normalize { mean: 1 mean: 2 std: 2 std: 4 } }",
                          v1::FLOAT32, {3.0f, 10.0f, 5.0f, 2.0f},
                          {2, 2}) == std::vector<float>{1.0f, 2.0f, 2.0f, 0.0f});
}

TEST_CASE("one_hot, with smoothing, and out of its depth", "[pipeline]") {
  CHECK(Run<float, std::int64_t>("dtype: FLOAT32 op { one_hot { depth: 3 } }", v1::INT64, {1},
                                 {}) == std::vector<float>{0, 1, 0});
  CHECK(Run<float, std::int64_t>("dtype: FLOAT32 op { one_hot { depth: 4 smoothing: 0.5 } }",
                                 v1::INT64, {0},
                                 {}) == std::vector<float>{0.625f, 0.125f, 0.125f, 0.125f});
  const auto program = ValueProgram::Compile(Tensor("dtype: FLOAT32 op { one_hot { depth: 3 } }"),
                                             v1::INT64, {}, false);
  ValueScratch scratch;
  scratch.ints = {3};
  float out[3];
  std::string detail;
  CHECK(program->Run(&scratch, out, &detail) != FaultClass::kNone);
  CHECK(detail == "one_hot of depth 3 got 3");
}

TEST_CASE("reshape keeps the values and fills one free side", "[pipeline]") {
  const auto program = ValueProgram::Compile(
      Tensor("dtype: FLOAT32 op { reshape { shape: [3, -1] } }"), v1::FLOAT32, {2, 6}, false);
  REQUIRE(program.ok());
  CHECK(program->shape() == std::vector<std::int64_t>{3, 4});
  CHECK(program->is_identity());
  for (const char* bad : {"[5, -1]", "[-1, -1]", "[13]", "[-2, 6]"}) {
    CHECK_FALSE(ValueProgram::Compile(
                    Tensor("dtype: FLOAT32 op { reshape { shape: " + std::string(bad) + " } }"),
                    v1::FLOAT32, {2, 6}, false)
                    .ok());
  }
}

TEST_CASE("a dtype that the ops do not give is refused with the cast to add", "[pipeline]") {
  const auto refused =
      ValueProgram::Compile(Tensor("dtype: FLOAT64 op { scale {} }"), v1::FLOAT32, {}, false);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("cast { dtype: FLOAT64 }") != std::string::npos);
  CHECK_FALSE(ValueProgram::Compile(Tensor("dtype: FLOAT32 op { resize { height: 1 width: 1 } }"),
                                    v1::FLOAT32, {}, false)
                  .ok());
}

TEST_CASE("float16 and bfloat16 round to nearest even, NaN keeps its name", "[pipeline]") {
  CHECK(ToFloat16(1.0f) == 0x3c00);
  CHECK(ToFloat16(65504.0f) == 0x7bff);
  CHECK(ToFloat16(65520.0f) == 0x7c00);
  CHECK(ToFloat16(65519.996f) == 0x7bff);
  CHECK(ToFloat16(1.0f + 1.0f / 2048) == 0x3c00);
  CHECK(ToFloat16(1.0f + 3.0f / 2048) == 0x3c02);
  CHECK(ToFloat16(0x1p-24f) == 1);
  CHECK(ToFloat16(0x1p-25f) == 0);
  CHECK(ToFloat16(-0.0f) == 0x8000);
  CHECK(ToBfloat16(1.0f) == 0x3f80);
  CHECK(ToBfloat16(std::bit_cast<float>(0x3f808000u)) == 0x3f80);
  CHECK(ToBfloat16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);
  CHECK(ToBfloat16(std::numeric_limits<float>::quiet_NaN()) == 0x7fc0);
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    REQUIRE(ToFloat16(FromFloat16(static_cast<std::uint16_t>(h))) == h);
  }
}

}  // namespace
}  // namespace stoker::pipeline
