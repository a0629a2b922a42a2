// Every SIMD target gives the bytes of the plain loop: for any sizes, kernels, types and layouts,
// and for whole programs.
#include <cstring>
#include <random>
#include <set>

#include "daemon/image/image_program.h"
#include "tests/support/catch.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

// What one random job writes under `target`. The same `seed`, the same job.
std::vector<std::uint8_t> RunJob(std::uint32_t seed, const char* target) {
  std::mt19937 random(seed);
  const auto below = [&random](std::uint32_t n) {
    return static_cast<std::uint32_t>(random() % n);
  };
  const std::uint32_t height = 1 + below(40);
  const std::uint32_t width = 1 + below(60);
  const std::uint32_t to_height = 1 + below(50);
  const std::uint32_t to_width = 1 + below(50);
  std::vector<std::uint8_t> bytes(std::size_t{height} * width * kStep + 3 * kStep);
  std::vector<float> floats(bytes.size());
  for (auto& value : bytes) value = static_cast<std::uint8_t>(random());
  for (auto& value : floats) value = static_cast<float>(random() % 70000) / 64.0f - 200.0f;
  const bool from_bytes = below(2) == 0;
  const View view = {from_bytes ? bytes.data() : nullptr, from_bytes ? nullptr : floats.data(),
                     width * kStep, height, width};
  const Kernel kernel = {static_cast<Method>(below(6)), below(2) == 0,
                         below(2) == 0 ? Profile::kTf : Profile::kTorchvision};
  Taps rows;
  Taps columns;
  MakeTaps(kernel, height, to_height, 0, to_height, &rows);
  MakeTaps(kernel, width, to_width, 0, to_width, &columns);
  if (below(2) == 0) rows.Reverse();
  if (below(2) == 0) columns.Reverse();
  Affine affine;
  for (std::size_t c = 0; c < 3; ++c) {
    affine.factor[c] = static_cast<float>(below(1000)) / 300.0f;
    affine.offset[c] = static_cast<float>(below(1000)) / 10.0f - 50.0f;
  }
  Sink sink;
  sink.type = static_cast<OutType>(below(5));
  sink.channels = below(3) == 0 ? 1 : below(3) == 0 ? 4 : 3;
  sink.layout = sink.channels == 3 && below(2) == 0 ? Layout::kNchw : Layout::kNhwc;
  sink.round_to = below(4) == 0 ? 255.0f : 0.0f;
  const std::size_t items = std::size_t{to_height} * to_width * sink.channels;
  // Any alignment of floats, and a guard behind the last.
  std::vector<std::uint8_t> out(items * 4 + 64, 0xa5);
  const std::size_t start = 4 * below(8);
  sink.out = out.data() + start;
  UseSimdTarget(target);
  Resampler resampler;
  resampler.Run(view, rows, columns, affine, sink);
  UseSimdTarget("");
  const std::size_t item = sink.type == OutType::kUint8     ? 1
                           : sink.type == OutType::kFloat32 ? 4
                                                            : 2;
  for (std::size_t i = start + items * item; i < out.size(); ++i) REQUIRE(out[i] == 0xa5);
  return out;
}

TEST_CASE("every SIMD target writes the plain loop's bytes, and no byte beside them",
          "[image][simd]") {
  const auto targets = SimdTargets();
  REQUIRE(targets.size() >= 1);
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    const auto plain = RunJob(seed, kPlainTarget);
    for (const char* target : targets) {
      CAPTURE(target);
      REQUIRE(RunJob(seed, target) == plain);
    }
  }
}

TEST_CASE("halves of every kind are rounded alike by every SIMD target", "[image][simd]") {
  // Each exponent with the fractions on both sides of a tie, and NaNs.
  std::vector<float> values;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t fraction :
         {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0x17fffu,
          0x18000u, 0x7fffffu}) {
      for (const std::uint32_t sign : {0u, 0x80000000u}) {
        const std::uint32_t bits = sign | exponent << 23 | fraction;
        float value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        values.insert(values.end(), {value, 0.0f, 0.0f, 0.0f});
      }
    }
  }
  const auto n = static_cast<std::uint32_t>(values.size() / kStep);
  values.resize(values.size() + 3 * kStep);
  const View view = {nullptr, values.data(), n * kStep, 1, n};
  Taps rows;
  Taps columns;
  MakeIdentity(1, &rows);
  MakeIdentity(n, &columns);
  for (const OutType type : {OutType::kFloat16, OutType::kBfloat16}) {
    std::set<std::vector<std::uint16_t>> seen;
    auto targets = SimdTargets();
    targets.push_back(kPlainTarget);
    for (const char* target : targets) {
      std::vector<std::uint16_t> out(n);
      Sink sink;
      sink.out = out.data();
      sink.type = type;
      sink.channels = 1;
      UseSimdTarget(target);
      Resampler().Run(view, rows, columns, Affine(), sink);
      seen.insert(out);
    }
    UseSimdTarget("");
    CHECK(seen.size() == 1);
  }
}

TEST_CASE("a program gives the same bytes on every SIMD target", "[image][simd]") {
  const std::string jpeg = Encode(Scene(150, 210, 3), 150, 210, 3, JCS_RGB);
  ImageSpec spec;
  OpSpec crop;
  crop.type = OpSpec::Type::kRandomResizedCrop;
  crop.height = crop.width = 33;
  OpSpec flip;
  flip.type = OpSpec::Type::kFlipHorizontal;
  flip.number = 1;
  OpSpec normalize;
  normalize.type = OpSpec::Type::kNormalize;
  normalize.mean = {0.485f, 0.456f, 0.406f};
  normalize.std = {0.229f, 0.224f, 0.225f};
  spec.ops = {crop, flip, normalize};
  spec.out = OutType::kFloat32;
  spec.layout = Layout::kNchw;
  const auto program = *ImageProgram::Compile(spec);
  std::set<std::vector<float>> seen;
  auto targets = SimdTargets();
  targets.push_back(kPlainTarget);
  for (const char* target : targets) {
    UseSimdTarget(target);
    std::vector<float> out(program->row_bytes() / 4 * 16);
    ImageWorker worker;
    ImageCounters counters;
    std::string detail;
    for (std::int64_t row = 0; row < 16; ++row) {
      REQUIRE(program->Run(worker, Bytes(jpeg), 3, row, 0, out.data() + row * 33 * 33 * 3,
                           &counters, &detail) == FaultClass::kNone);
    }
    seen.insert(out);
  }
  UseSimdTarget("");
  CHECK(seen.size() == 1);
}

}  // namespace
}  // namespace stoker::image
