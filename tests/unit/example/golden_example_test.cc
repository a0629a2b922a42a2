// What TensorFlow and protobuf answered for 1,713 single Examples. Where they agree ours agrees
// with them, values and all; where they do not, STRICT refuses the record.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/example/example_parser.h"
#include "tests/support/catch.h"
#include "tests/support/test_data.h"

namespace stoker::example {
namespace {

using Json = nlohmann::json;

std::string Unhex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

Kind KindOf(const std::string& dtype) {
  return dtype == "int64" ? Kind::kInt64 : dtype == "float32" ? Kind::kFloat : Kind::kBytes;
}

// Values as the vectors write them.
std::vector<std::string> Values(const FeatureSpan& span) {
  std::vector<std::string> out;
  if (span.kind == Kind::kInt64) {
    std::vector<std::int64_t> values(span.count);
    CopyInt64(span, values.data());
    for (const auto value : values) out.push_back(std::to_string(value));
  } else if (span.kind == Kind::kFloat) {
    std::vector<float> values(span.count);
    CopyFloat(span, values.data());
    for (const float& value : values) out.push_back(Hex(std::as_bytes(std::span(&value, 1))));
  } else if (span.kind == Kind::kBytes) {
    ForEachBytes(span, [&out](std::span<const std::byte> value) { out.push_back(Hex(value)); });
  }
  return out;
}

std::vector<std::string> Listed(const Json& feature, const std::string& example_hex) {
  auto list = feature.contains("f32_hex") ? feature["f32_hex"] : feature["values"];
  std::vector<std::string> out;
  const auto add = [&](auto self, const Json& item) -> void {
    if (item.is_array()) {
      for (const auto& inner : item) self(self, inner);
    } else {
      out.push_back(item == "..." ? example_hex : item.get<std::string>());
    }
  };
  add(add, list);
  return out;
}

struct Ours {
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  std::map<std::string, std::vector<std::string>> values;
};

Ours Read(const Json& spec, const std::string& example) {
  std::vector<FeatureRequest> requests;
  for (const auto& [key, feature] : spec.items()) {
    const std::string name = key.starts_with("hex:") ? Unhex(key.substr(4)) : key;
    const bool fixed =
        feature["kind"] == "fixed" && (feature["shape"].empty() || !feature["shape"][0].is_null());
    const bool has_default = fixed && feature.contains("default") && !feature["default"].is_null();
    requests.push_back({name, KindOf(feature["dtype"]), !fixed, has_default});
  }
  Ours ours;
  auto plan = FeaturePlan::Make(requests);
  ExampleParser parser(&*plan);
  std::vector<FeatureSpan> spans(requests.size());
  ParseCounters counters;
  const auto record = std::as_bytes(std::span(example));
  // Twice: the second time with every key remembered.
  for (int pass = 0; pass < 2; ++pass) {
    ours.fault = parser.Parse(record, spans, &counters, &ours.detail);
    if (ours.fault != FaultClass::kNone) return ours;
  }
  std::size_t i = 0;
  for (const auto& [key, feature] : spec.items()) {
    const auto& request = requests[i];
    const auto& span = spans[i++];
    if (request.variable) {
      ours.fault = CheckVariable(request, span, record, &ours.detail);
      std::uint64_t row = 1;
      if (feature["kind"] == "fixed") {
        for (std::size_t d = 1; d < feature["shape"].size(); ++d)
          row *= feature["shape"][d].get<std::uint64_t>();
      }
      if (ours.fault == FaultClass::kNone && row > 0 && span.count % row != 0)
        ours.fault = FaultClass::kFeatureCount;
    } else {
      std::uint64_t count = 1;
      for (const auto& side : feature["shape"]) count *= side.get<std::uint64_t>();
      ours.fault = CheckFixed(request, span, count, record, &ours.detail);
    }
    if (ours.fault != FaultClass::kNone) return ours;
    const bool defaulted = request.fixed_has_default && span.kind == Kind::kNone;
    auto values = defaulted ? Listed(feature["default"], "") : Values(span);
    if (defaulted && values.size() == 1) {  // one value stands for all of the shape
      std::uint64_t count = 1;
      for (const auto& side : feature["shape"]) count *= side.get<std::uint64_t>();
      values.resize(count, values[0]);
    }
    ours.values[key] = std::move(values);
  }
  return ours;
}

TEST_CASE("where TensorFlow and protobuf agree ours agrees, where they differ it refuses",
          "[example][golden]") {
  std::ifstream in(test::GoldenDir() / "wire" / "example.jsonl");
  std::string line;
  std::map<std::string, int> count;
  while (std::getline(in, line)) {
    const auto vector = Json::parse(line);
    if (!vector.contains("example_hex")) {
      ++count["batches"];
      continue;
    }
    const std::string name = vector["name"];
    CAPTURE(name);
    const std::string hex = vector["example_hex"];
    const Ours ours = Read(vector["spec"], Unhex(hex));
    INFO(FaultName(ours.fault) << ": " << ours.detail);
    const auto& single = vector["single"];
    const bool ok = single.value("ok", false);
    if (vector["disagree"].get<bool>()) {
      if (ours.fault == FaultClass::kAmbiguousExample) {
        ++count["refused as ambiguous"];
      } else if (ours.fault != FaultClass::kNone) {
        ++count["refused as malformed or by kind or count"];
      } else {
        // They differ inside a feature that nobody asked for, which is never looked into.
        CHECK((name.ends_with("not-requested") || name == "fuzz/077-flip"));
        ++count["read: they differ where nobody asked"];
      }
      continue;
    }
    if (!ok) {
      CHECK(ours.fault != FaultClass::kNone);
      ++count["refused as both do"];
      continue;
    }
    if (ours.fault != FaultClass::kNone) {
      // A case of section 2's (s) in which the two happen to give the same, or D8.
      const bool named = ours.fault == FaultClass::kAmbiguousExample ||
                         ours.detail.find("SequenceExample") != std::string::npos;
      CHECK(named);
      ++count["refused by (s) or D8"];
      continue;
    }
    for (const auto& [key, feature] : single["values"].items()) {
      CHECK(ours.values.at(key) == Listed(feature, hex));
    }
    ++count["read as both do"];
  }
  const std::map<std::string, int> want = {{"batches", 75},
                                           {"read as both do", 371},
                                           {"refused as both do", 763},
                                           {"refused as ambiguous", 410},
                                           {"refused as malformed or by kind or count", 98},
                                           {"refused by (s) or D8", 61},
                                           {"read: they differ where nobody asked", 10}};
  CHECK(count == want);
}

}  // namespace
}  // namespace stoker::example
