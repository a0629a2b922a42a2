// A parser that knows a writer's layout says of any record what one that never saw a record says.
#include <random>

#include "daemon/example/example_parser.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::example {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

const FeaturePlan& Plan() {
  static const FeaturePlan plan = *FeaturePlan::Make({{"x", Kind::kFloat, false, false},
                                                      {"label", Kind::kInt64, true, false},
                                                      {"name", Kind::kBytes, true, false},
                                                      {"absent", Kind::kInt64, true, false}});
  return plan;
}

struct Said {
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  ParseCounters counters;
  std::vector<float> x;
  std::vector<std::int64_t> label;
  std::vector<std::string> name;
  bool absent = false;
  bool operator==(const Said&) const = default;
};

Said Ask(ExampleParser* parser, const std::string& record) {
  FeatureSpan spans[4];
  Said said;
  said.fault = parser->Parse(Bytes(record), spans, &said.counters, &said.detail);
  if (said.fault != FaultClass::kNone) return said;
  if (spans[0].kind == Kind::kFloat) {
    said.x.resize(spans[0].count);
    CopyFloat(spans[0], said.x.data());
    for (float& value : said.x) value = value != value ? 0.5f : value;  // NaN equals nothing
  }
  if (spans[1].kind == Kind::kInt64) {
    said.label.resize(spans[1].count);
    CopyInt64(spans[1], said.label.data());
  }
  if (spans[2].kind == Kind::kBytes) {
    ForEachBytes(spans[2], [&said](std::span<const std::byte> value) {
      said.name.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
    });
  }
  said.absent = spans[3].kind == Kind::kNone;
  return said;
}

std::string Row(std::mt19937_64* draw) {
  std::vector<float> x(8);
  for (float& value : x) value = static_cast<float>((*draw)() % 1000) / 7;
  std::vector<std::int64_t> label;
  for (int i = 0; i < 3; ++i) label.push_back(static_cast<std::int64_t>((*draw)() % 300));
  return test::Example({{"x", test::Floats(x)},
                        {"label", test::Ints(label)},
                        {"other", test::Ints({7})},
                        {"name", test::Strings({"ab", std::string(1 + (*draw)() % 2, 'z')})}});
}

TEST_CASE("a known layout changes no answer, over any mutation", "[example][memo]") {
  std::mt19937_64 draw(9);
  ExampleParser warm(&Plan());
  int good = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string record = Row(&draw);
    // Mostly whole records, so that layouts are known when a mutated one comes.
    for (int m = i % 3 == 0 ? 1 + static_cast<int>(draw() % 2) : 0; m > 0; --m) {
      record[draw() % record.size()] = static_cast<char>(draw());
    }
    ExampleParser fresh(&Plan());
    const Said want = Ask(&fresh, record);
    const Said have = Ask(&warm, record);
    if (!(have == want)) {
      CAPTURE(i, want.detail, have.detail);
      REQUIRE(have == want);
    }
    good += want.fault == FaultClass::kNone ? 1 : 0;
  }
  CHECK(good > 140000);
  CHECK(good < 190000);
}

TEST_CASE("a known layout changes no answer in TF and PROTOBUF either", "[example][memo]") {
  for (const Mode mode : {Mode::kTensorFlow, Mode::kProtobuf}) {
    std::mt19937_64 draw(10);
    ExampleParser warm(&Plan(), mode);
    std::uint64_t loose = 0;
    for (int i = 0; i < 50000; ++i) {
      std::string record = Row(&draw);
      for (int m = i % 3 == 0 ? 1 + static_cast<int>(draw() % 2) : 0; m > 0; --m) {
        record[draw() % record.size()] = static_cast<char>(draw());
      }
      ExampleParser fresh(&Plan(), mode);
      const Said want = Ask(&fresh, record);
      const Said have = Ask(&warm, record);
      if (!(have == want)) {
        CAPTURE(i, want.detail, have.detail);
        REQUIRE(have == want);
      }
      loose += want.counters.ambiguous;
    }
    CHECK(loose > 100);
  }
}

TEST_CASE("a layout learned from canonical records takes no loose one for its own",
          "[example][memo]") {
  const std::string good = test::Example({{"label", test::Ints({1, 2, 3, 4})}});
  // As long, and a chunk of three values with an unpacked one behind it.
  std::string loose = good;
  const auto chunk = loose.find(std::string("\x0a\x04\x01\x02", 4));
  REQUIRE(chunk != std::string::npos);
  loose.replace(chunk, 6, std::string("\x0a\x02\x01\x02\x08\x09", 6));
  for (const auto& [mode, values] :
       {std::pair(Mode::kTensorFlow, std::vector<std::int64_t>{1, 2}),
        std::pair(Mode::kProtobuf, std::vector<std::int64_t>{1, 2, 9})}) {
    ExampleParser parser(&Plan(), mode);
    for (int i = 0; i < 4; ++i) {
      CHECK(Ask(&parser, good).label == std::vector<std::int64_t>{1, 2, 3, 4});
      const Said said = Ask(&parser, loose);
      CHECK(said.label == values);
      CHECK(said.counters.ambiguous == 1);
    }
  }
}

TEST_CASE("packed values are counted in every record, however alike the rest", "[example][memo]") {
  ExampleParser parser(&Plan());
  const auto record = [](const std::string& chunk) {
    return test::Example(
        {{"x", test::Floats({1})}, {"label", test::Field(3, test::Field(1, chunk))}});
  };
  for (int i = 0; i < 5; ++i) CHECK(Ask(&parser, record("\x01\x02")).label.size() == 2);
  CHECK(Ask(&parser, record("\x81\x02")).label == std::vector<std::int64_t>{257});
  CHECK(Ask(&parser, record("\x01\x82")).fault == FaultClass::kMalformedExample);
  CHECK(Ask(&parser, record("\x05\x06")).label == std::vector<std::int64_t>{5, 6});
}

}  // namespace
}  // namespace stoker::example
