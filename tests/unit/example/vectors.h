// The golden vectors of Examples, and ours beside them: what a parser of any mode makes of one.
#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/example/example_parser.h"
#include "tests/support/test_data.h"

namespace stoker::example {

using Json = nlohmann::json;

inline std::string Unhex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

inline std::string Hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

inline Kind KindOf(const std::string& dtype) {
  return dtype == "int64" ? Kind::kInt64 : dtype == "float32" ? Kind::kFloat : Kind::kBytes;
}

// Values as the vectors write them.
inline std::vector<std::string> Values(const FeatureSpan& span) {
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

inline std::vector<std::string> Listed(const Json& feature, const std::string& example_hex) {
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
  ParseCounters counters;
};

inline Ours Read(const Json& spec, const std::string& example, Mode mode = Mode::kStrict) {
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
  ExampleParser parser(&*plan, mode);
  std::vector<FeatureSpan> spans(requests.size());
  const auto record = std::as_bytes(std::span(example));
  // Twice: the second time with every key remembered.
  for (int pass = 0; pass < 2; ++pass) {
    ours.counters = {};
    ours.fault = parser.Parse(record, spans, &ours.counters, &ours.detail);
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

// The fault's class, and what it says without the names of features.
inline std::string Category(const Ours& ours) {
  std::string detail = ours.detail;
  if (ours.fault == FaultClass::kFeatureKind || ours.fault == FaultClass::kFeatureCount ||
      ours.fault == FaultClass::kFeatureMissing) {
    return std::string(FaultName(ours.fault));
  }
  if (detail.find("this is a SequenceExample") != std::string::npos) return "D8";
  if (detail.starts_with("feature \"")) detail = detail.substr(detail.find("\": ") + 3);
  const std::string differs = "TensorFlow and protobuf read it differently: ";
  if (detail.starts_with(differs)) return "(s) " + detail.substr(differs.size());
  return detail;
}

}  // namespace stoker::example
