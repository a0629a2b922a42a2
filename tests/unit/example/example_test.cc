// Parsing as a user meets it: what canonical writers write is read, what two readers would read
// differently is refused by name, nothing reads past its end.
#include "daemon/example/example_parser.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::example {
namespace {

using test::Field;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

struct Parsed {
  std::string record;  // the span's values lie in it
  FaultClass fault;
  std::string detail;
  FeatureSpan span;
  ParseCounters counters;
};

Parsed ParseOne(const std::string& record, const std::string& key = "f", Kind kind = Kind::kInt64,
                Mode mode = Mode::kStrict) {
  auto plan = FeaturePlan::Make({{key, kind, true, false}});
  ExampleParser parser(&*plan, mode);
  Parsed out;
  out.record = record;
  out.fault = parser.Parse(Bytes(out.record), {&out.span, 1}, &out.counters, &out.detail);
  return out;
}

std::string OneFeature(const std::string& feature, const std::string& key = "f") {
  return test::Example({{key, feature}});
}

std::vector<std::int64_t> Int64s(const FeatureSpan& span) {
  std::vector<std::int64_t> values(span.count);
  CopyInt64(span, values.data());
  return values;
}

TEST_CASE("packed, unpacked and empty lists are read alike", "[example]") {
  const std::vector<std::int64_t> want = {5, 6};
  const std::string packed = OneFeature(test::Ints(want));
  const std::string unpacked = OneFeature(Field(3, "\x08\x05\x08\x06"));
  CHECK(Int64s(ParseOne(packed).span) == want);
  CHECK(Int64s(ParseOne(unpacked).span) == want);
  const auto empty_chunk = ParseOne(OneFeature(Field(3, Field(1, ""))));
  CHECK(empty_chunk.span.kind == Kind::kInt64);
  CHECK(empty_chunk.span.count == 0);
  CHECK(ParseOne(OneFeature(Field(3, std::string("\x08\x05", 2) + Field(1, "\x06\x07")))).fault ==
        FaultClass::kAmbiguousExample);
}

TEST_CASE("int64 goes to its ends and floats keep their bits", "[example]") {
  const std::vector<std::int64_t> want = {-1, INT64_MAX, INT64_MIN, 0, 127, 128};
  const std::string record = OneFeature(test::Ints(want));
  CHECK(Int64s(ParseOne(record).span) == want);
  const std::string floats = OneFeature(test::Floats({0.1f, 16777217.0f}));
  const auto parsed = ParseOne(floats, "f", Kind::kFloat);
  std::uint32_t bits[2];
  CopyFloat(parsed.span, reinterpret_cast<float*>(bits));
  CHECK(bits[0] == 0x3dcccccd);
  CHECK(bits[1] == 0x4b800000);
}

TEST_CASE("the last of duplicate keys wins, also over several features messages", "[example]") {
  const std::string twice = OneFeature(test::Ints({1})) + OneFeature(test::Ints({2, 3}));
  const auto parsed = ParseOne(twice);
  CHECK(Int64s(parsed.span) == std::vector<std::int64_t>{2, 3});
  CHECK(parsed.counters.duplicate_keys == 1);
  CHECK(ParseOne(OneFeature(test::Ints({1})) + OneFeature("")).fault ==
        FaultClass::kAmbiguousExample);
}

TEST_CASE("a key is its bytes: UTF-8 is not normalised, and what is not UTF-8 is refused",
          "[example]") {
  const std::string composed =
      "gr\xc3\xb6\xc3\x9f"
      "e";
  const std::string decomposed =
      "gro\xcc\x88\xc3\x9f"
      "e";
  const std::string record = OneFeature(test::Ints({1}), composed);
  CHECK(ParseOne(record, composed).span.count == 1);
  CHECK(ParseOne(record, decomposed).span.kind == Kind::kNone);
  for (const char* bad : {"\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    CHECK(ParseOne(OneFeature(test::Ints({1}), bad)).fault == FaultClass::kAmbiguousExample);
  }
}

TEST_CASE("features that nobody asked for are never looked into", "[example]") {
  const std::string record = OneFeature("\xff\xff\xff", "other") + OneFeature(test::Ints({4}));
  CHECK(Int64s(ParseOne(record).span) == std::vector<std::int64_t>{4});
}

TEST_CASE("faults name the case", "[example]") {
  const std::string good = test::Ints({1});
  const std::pair<std::string, FaultClass> cases[] = {
      {"\x0b", FaultClass::kAmbiguousExample},                             // a group
      {std::string("\x0a\x05", 2), FaultClass::kMalformedExample},         // runs past the end
      {Field(1, Field(2, "")), FaultClass::kAmbiguousExample},             // inside Features
      {Field(1, Field(1, Field(1, "f"))), FaultClass::kAmbiguousExample},  // no value
      {Field(1, Field(1, Field(1, "f") + Field(2, good) + Field(2, good))),
       FaultClass::kAmbiguousExample},
      {OneFeature(good + good), FaultClass::kAmbiguousExample},                 // list twice
      {OneFeature(Field(3, Field(1, "\x80"))), FaultClass::kMalformedExample},  // varint runs over
      {OneFeature(Field(3, Field(1, std::string(10, '\x80') + "\x01"))),
       FaultClass::kMalformedExample},
      {OneFeature(Field(2, Field(1, "abc"))),
       FaultClass::kAmbiguousExample},                                  // three bytes of float
      {std::string("\x8a\x00\x00", 3), FaultClass::kAmbiguousExample},  // an over-long tag
  };
  int number = 0;
  for (const auto& [record, fault] : cases) {
    CAPTURE(number++);
    const auto parsed = ParseOne(record);
    CHECK(parsed.fault == fault);
    CHECK_FALSE(parsed.detail.empty());
  }
}

TEST_CASE("every cut of a record is refused or reads what is whole, and never past its end",
          "[example]") {
  const std::string record = test::Example({{"a", test::Floats({1, 2, 3})},
                                            {"f", test::Ints({1000000, 2, 3})},
                                            {"s", test::Strings({"x", "yz"})}});
  for (std::size_t cut = 0; cut < record.size(); ++cut) {
    // A copy of exactly that size, so that a sanitizer sees the first byte too many.
    const std::vector<char> exact(record.begin(),
                                  record.begin() + static_cast<std::ptrdiff_t>(cut));
    const std::string text(exact.begin(), exact.end());
    const auto parsed = ParseOne(text);
    CAPTURE(cut);
    CHECK((cut == 0 ? parsed.fault == FaultClass::kNone : parsed.fault != FaultClass::kNone));
  }
}

TEST_CASE("keys in another order than the last record's are found", "[example]") {
  auto plan =
      FeaturePlan::Make({{"a", Kind::kInt64, true, false}, {"b", Kind::kInt64, true, false}});
  ExampleParser parser(&*plan);
  FeatureSpan spans[2];
  ParseCounters counters;
  std::string detail;
  for (int i = 0; i < 20; ++i) {
    const std::string first = test::Example({{"a", test::Ints({i})}, {"b", test::Ints({-i})}});
    const std::string other =
        test::Example({{"x", ""}, {"b", test::Ints({-i})}, {"a", test::Ints({i})}});
    REQUIRE(parser.Parse(Bytes(i % 3 == 0 ? other : first), spans, &counters, &detail) ==
            FaultClass::kNone);
    CHECK(Int64s(spans[0]) == std::vector<std::int64_t>{i});
    CHECK(Int64s(spans[1]) == std::vector<std::int64_t>{-i});
  }
}

TEST_CASE("checks name the feature, what was declared and what is there", "[example]") {
  const std::string record = test::Example({{"w", test::Floats({1})}, {"n", test::Ints({1, 2})}});
  std::string detail;
  FeatureSpan span;
  CHECK(CheckFixed({"label", Kind::kInt64, false, false}, span, 1, Bytes(record), &detail) ==
        FaultClass::kFeatureMissing);
  for (const char* word : {"\"label\"", "int64_list", "\"w\"", "\"n\""})
    CHECK(detail.find(word) != std::string::npos);
  CHECK(CheckFixed({"label", Kind::kInt64, false, true}, span, 1, Bytes(record), &detail) ==
        FaultClass::kNone);
  span.kind = Kind::kFloat;
  span.count = 1;
  CHECK(CheckFixed({"label", Kind::kInt64, false, true}, span, 1, Bytes(record), &detail) ==
        FaultClass::kFeatureKind);
  span.kind = Kind::kInt64;
  span.count = 2;
  CHECK(CheckFixed({"label", Kind::kInt64, false, true}, span, 3, Bytes(record), &detail) ==
        FaultClass::kFeatureCount);
  CHECK(detail == "feature \"label\" has 2 values, expected 3");
}

TEST_CASE("a duplicate without a kind is ambiguous only where it is the last", "[example]") {
  const std::string one = OneFeature(test::Ints({1}));
  const std::string none = OneFeature("");
  const auto between = ParseOne(one + none + OneFeature(test::Ints({2})));
  CHECK(between.fault == FaultClass::kNone);
  CHECK(Int64s(between.span) == std::vector<std::int64_t>{2});
  CHECK(between.counters.duplicate_keys == 2);
  CHECK(ParseOne(none + one).fault == FaultClass::kNone);
  CHECK(ParseOne(one + OneFeature(test::Ints({2})) + none).fault == FaultClass::kAmbiguousExample);
}

TEST_CASE("fields of other numbers or wire types are passed over at top level", "[example]") {
  const std::string good = OneFeature(test::Ints({7}));
  const std::string fields[] = {
      std::string("\x08\x07"),                    // field 1, a varint
      std::string("\x0d\x01\x02\x03\x04"),        // field 1, four bytes
      std::string("\x09") + std::string(8, 'x'),  // field 1, eight bytes
      Field(16, "sixteen"),                       // a tag of two bytes
      std::string("\xf8\xff\xff\xff\x0f\x05"),    // field 2^29 - 1
  };
  for (const auto& field : fields) {
    CHECK(Int64s(ParseOne(field + good).span) == std::vector<std::int64_t>{7});
    CHECK(Int64s(ParseOne(good + field).span) == std::vector<std::int64_t>{7});
  }
  // Field 16 in three bytes where two do.
  CHECK(ParseOne(std::string("\x82\x81\x00\x00", 4) + good).fault == FaultClass::kAmbiguousExample);
  CHECK(ParseOne(std::string("\x80\x80\x80\x80\x10\x01") + good).fault ==
        FaultClass::kAmbiguousExample);
}

TEST_CASE("a missing feature's error lists the keys that are there, wherever they stand",
          "[example]") {
  const std::string record = Field(9, "unknown") +
                             test::Example({{"a", test::Ints({1})}, {"none", ""}}) +
                             test::Example({{"a", test::Ints({2})}, {"b", test::Floats({})}});
  CHECK(PresentKeys(Bytes(record)) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a length of six bytes is TensorFlow's alone, one of ten nobody's", "[example]") {
  const std::string body = Field(1, "f") + Field(2, test::Ints({3}));
  const auto record = [&body](int length_bytes) {
    std::string length(1, static_cast<char>(body.size() | 0x80));
    length += std::string(static_cast<std::size_t>(length_bytes - 2), '\x80') + '\0';
    return Field(1, "\x0a" + length + body);
  };
  CHECK(ParseOne(record(5)).fault == FaultClass::kNone);
  CHECK(ParseOne(record(6)).fault == FaultClass::kAmbiguousExample);
  CHECK(ParseOne(record(9)).fault == FaultClass::kAmbiguousExample);
  CHECK(ParseOne(record(10)).fault == FaultClass::kMalformedExample);
  const auto tf = ParseOne(record(9), "f", Kind::kInt64, Mode::kTensorFlow);
  CHECK(Int64s(tf.span) == std::vector<std::int64_t>{3});
  CHECK(tf.counters.ambiguous == 1);
  for (const Mode mode : {Mode::kTensorFlow, Mode::kProtobuf}) {
    CHECK(ParseOne(record(10), "f", Kind::kInt64, mode).fault == FaultClass::kMalformedExample);
  }
  CHECK(ParseOne(record(6), "f", Kind::kInt64, Mode::kProtobuf).fault ==
        FaultClass::kMalformedExample);
}

TEST_CASE("TF takes the first chunk, list and kind, PROTOBUF joins them or takes the last",
          "[example]") {
  const std::string chunks = OneFeature(Field(3, Field(1, "\x01\x02") + Field(1, "\x03")));
  const std::string lists = OneFeature(test::Ints({1, 2}) + test::Ints({3}));
  const std::string kinds = OneFeature(test::Ints({1, 2}) + test::Strings({"x"}) + test::Ints({3}));
  using Ints = std::vector<std::int64_t>;
  const auto read = [](const std::string& record, Mode mode) {
    const auto parsed = ParseOne(record, "f", Kind::kInt64, mode);
    CHECK(parsed.fault == FaultClass::kNone);
    CHECK(parsed.counters.ambiguous == 1);
    return Int64s(parsed.span);
  };
  CHECK(read(chunks, Mode::kTensorFlow) == Ints{1, 2});
  CHECK(read(chunks, Mode::kProtobuf) == Ints{1, 2, 3});
  CHECK(read(lists, Mode::kTensorFlow) == Ints{1, 2});
  CHECK(read(lists, Mode::kProtobuf) == Ints{1, 2, 3});
  CHECK(read(kinds, Mode::kTensorFlow) == Ints{1, 2});
  CHECK(read(kinds, Mode::kProtobuf) == Ints{3});
  CHECK(ParseOne(chunks).fault == FaultClass::kAmbiguousExample);
}

}  // namespace
}  // namespace stoker::example
