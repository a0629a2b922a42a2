// C++ protobuf beside ours on records that no writer would write: fields in pieces, of other wire
// types, unknown, repeated, and bytes changed at random.
#include <google/protobuf/stubs/logging.h>

#include <map>
#include <optional>
#include <random>

#include "daemon/example/example_parser.h"
#include "oracle.pb.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::example {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;
using Random = std::mt19937_64;
using test::Field;

const char* const kKeys[] = {"a", "b", "c"};

const FeaturePlan& Plan() {
  static const FeaturePlan plan = *FeaturePlan::Make({{"a", Kind::kInt64, true, false},
                                                      {"b", Kind::kFloat, true, false},
                                                      {"c", Kind::kBytes, true, false}});
  return plan;
}

// --- records -----------------------------------------------------------------------------------

std::string Blob(Random& draw, std::size_t most) {
  std::string bytes(draw() % (most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(draw());
  return bytes;
}

std::string Number(Random& draw) { return test::Varint(draw() >> (draw() % 64)); }

// A field of any number and wire type.
std::string Odd(Random& draw) {
  const std::uint64_t number = draw() % 8 == 0 ? draw() % 40 : 1 + draw() % 4;
  const auto tag = [&](unsigned wire) { return test::Varint(number << 3 | wire); };
  switch (draw() % 6) {
    case 0:
      return tag(0) + Number(draw);
    case 1:
      return tag(1) + test::Little(draw(), 8);
    case 2:
      return tag(2) + test::Varint(2) + "xy";
    case 3:
      return tag(3) + (draw() % 2 == 0 ? "" : "\x20\x05") + tag(4);
    case 4:
      return tag(5) + test::Little(draw(), 4);
    default:
      return tag(6 + draw() % 2);
  }
}

bool Sometimes(Random& draw, unsigned one_in) { return draw() % one_in == 0; }

std::string List(Random& draw, int kind) {
  std::string list;
  for (auto n = draw() % 4; n > 0; --n) {
    if (Sometimes(draw, 12)) list += Odd(draw);
    std::string chunk;
    if (kind == 1) {
      list += Field(1, Blob(draw, 5));
    } else if (Sometimes(draw, 2)) {
      for (auto k = draw() % 4; k > 0; --k) {
        chunk += kind == 2 ? test::Little(draw(), 4) : Number(draw);
      }
      if (Sometimes(draw, 12)) chunk += "\x01";
      list += Field(1, chunk);
    } else {
      list += kind == 2 ? "\x0d" + test::Little(draw(), 4) : "\x08" + Number(draw);
    }
  }
  return list;
}

std::string OddFeature(Random& draw, int kind) {
  std::string feature;
  for (auto n = Sometimes(draw, 6) ? draw() % 4 : 1; n > 0; --n) {
    if (Sometimes(draw, 20)) feature += Odd(draw);
    const int stored = Sometimes(draw, 10) ? 1 + static_cast<int>(draw() % 3) : kind;
    feature += Field(stored, List(draw, stored));
  }
  return feature;
}

std::string OddRecord(Random& draw) {
  std::string record;
  for (auto messages = Sometimes(draw, 4) ? draw() % 3 : 1; messages > 0; --messages) {
    std::string features;
    for (auto entries = draw() % 5; entries > 0; --entries) {
      constexpr int kKinds[] = {3, 2, 1};
      const auto which = draw() % 3;
      std::string entry;
      if (!Sometimes(draw, 30)) entry += Field(1, kKeys[which]);
      if (Sometimes(draw, 20)) entry += Odd(draw);
      if (!Sometimes(draw, 30)) entry += Field(2, OddFeature(draw, kKinds[which]));
      if (Sometimes(draw, 30)) entry += Field(2, OddFeature(draw, kKinds[which]));
      if (Sometimes(draw, 30)) entry += Field(1, kKeys[draw() % 3]);
      features += Field(1, entry);
      if (Sometimes(draw, 30)) features += Odd(draw);
    }
    record += Field(1, features);
    if (Sometimes(draw, 20)) record += Odd(draw);
  }
  if (!record.empty() && Sometimes(draw, 4)) {
    record[draw() % record.size()] = static_cast<char>(draw());
  }
  if (!record.empty() && Sometimes(draw, 16)) record.erase(draw() % record.size(), 1);
  return record;
}

// --- the two readers ---------------------------------------------------------------------------

std::string Hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string Bits(float value) {
  std::string bits(sizeof(value), '\0');
  std::memcpy(bits.data(), &value, sizeof(value));
  return bits;
}

void Add(const std::string& key, const oracle::Feature& feature, Values* values) {
  if (feature.kind_case() == oracle::Feature::KIND_NOT_SET) return;
  auto& list = (*values)[key];
  list.push_back(std::to_string(feature.kind_case()));
  for (const auto& value : feature.bytes_list().value()) list.push_back(value);
  for (const float value : feature.float_list().value()) list.push_back(Bits(value));
  for (const auto value : feature.int64_list().value()) list.push_back(std::to_string(value));
}

// What protobuf reads under the three keys; nothing where it refuses.
std::optional<Values> Oracle(const std::string& record) {
  oracle::OpenExample open;
  if (!open.ParseFromString(record)) return std::nullopt;
  Values values;
  for (const char* key : kKeys) {
    oracle::Feature last;
    for (const auto& entry : open.features().feature()) {
      if (entry.key() != key) continue;
      last.Clear();
      for (const auto& piece : entry.value()) {
        if (!last.MergeFromString(piece)) return std::nullopt;
      }
    }
    Add(key, last, &values);
  }
  return values;
}

struct Ours {
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  ParseCounters counters;
  Values values;
};

Ours Ask(ExampleParser* parser, const std::string& record) {
  Ours ours;
  FeatureSpan spans[3];
  ours.fault = parser->Parse(std::as_bytes(std::span(record)), spans, &ours.counters, &ours.detail);
  for (int i = 0; ours.fault == FaultClass::kNone && i < 3; ++i) {
    const FeatureSpan& span = spans[i];
    if (span.kind == Kind::kNone) continue;
    auto& list = ours.values[kKeys[i]];
    list.push_back(std::to_string(static_cast<int>(span.kind)));
    if (span.kind == Kind::kInt64) {
      std::vector<std::int64_t> values(span.count);
      CopyInt64(span, values.data());
      for (const auto value : values) list.push_back(std::to_string(value));
    } else if (span.kind == Kind::kFloat) {
      std::vector<float> values(span.count);
      CopyFloat(span, values.data());
      for (const float value : values) list.push_back(Bits(value));
    } else {
      ForEachBytes(span, [&list](std::span<const std::byte> value) {
        list.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
      });
    }
  }
  return ours;
}

TEST_CASE("PROTOBUF is C++ protobuf, and what STRICT reads is too, over any record",
          "[example][differential]") {
  google::protobuf::SetLogHandler(nullptr);
  Random draw(20);
  ExampleParser strict(&Plan());
  ExampleParser loose(&Plan(), Mode::kProtobuf);
  ExampleParser tensorflow(&Plan(), Mode::kTensorFlow);
  std::map<std::string, int> count;
  for (int i = 0; i < 200000; ++i) {
    const std::string record = OddRecord(draw);
    const auto want = Oracle(record);
    const Ours ours = Ask(&loose, record);
    const Ours plain = Ask(&strict, record);
    const bool sequence = ours.detail.find("SequenceExample") != std::string::npos;
    const bool same = sequence || (want.has_value() == (ours.fault == FaultClass::kNone) &&
                                   (!want || *want == ours.values));
    if (!same) {
      CAPTURE(i, Hex(record), want.has_value(), ours.detail, plain.detail);
      REQUIRE(same);
    }
    if (plain.fault == FaultClass::kNone && !(want && *want == plain.values)) {
      CAPTURE(i, Hex(record));
      FAIL("STRICT reads what protobuf reads otherwise");
    }
    // TensorFlow is not here to be asked; but what STRICT reads both read alike.
    const Ours other = Ask(&tensorflow, record);
    if (other.fault == FaultClass::kAmbiguousExample ||
        (plain.fault == FaultClass::kNone && other.values != plain.values)) {
      CAPTURE(i, Hex(record), other.detail);
      FAIL("TF differs from what STRICT reads, or calls a record ambiguous");
    }
    count["read as TensorFlow, loosely"] += other.counters.ambiguous > 0 ? 1 : 0;
    // With protobuf's own map, where it reads every value.
    oracle::Example whole;
    if (!sequence && whole.ParseFromString(record)) {
      Values values;
      for (const char* key : kKeys) {
        const auto it = whole.features().feature().find(key);
        if (it != whole.features().feature().end()) Add(key, it->second, &values);
      }
      if (values != ours.values) {
        CAPTURE(i, Hex(record), ours.detail);
        REQUIRE(values == ours.values);
      }
      ++count["with the map"];
    }
    ++count[sequence                           ? "a SequenceExample"
            : !want                            ? "refused"
            : plain.fault == FaultClass::kNone ? "read by STRICT"
                                               : "read loosely"];
    CHECK_FALSE((plain.fault == FaultClass::kNone && ours.counters.ambiguous != 0));
  }
  CHECK(count["with the map"] > 50000);
  CHECK(count["refused"] > 20000);
  CHECK(count["read by STRICT"] > 20000);
  CHECK(count["read loosely"] > 20000);
  CHECK(count["read as TensorFlow, loosely"] > 10000);
}

}  // namespace
}  // namespace stoker::example
