// What TensorFlow and protobuf answered for 695 vectors of SequenceExamples. Ours agrees where they
// agree and refuses where they differ; what falls under a line of the contract instead is counted
// under that line.
#include "daemon/example/sequence_parser.h"
#include "tests/support/catch.h"
#include "tests/unit/example/vectors.h"

namespace stoker::example {
namespace {

std::uint64_t Count(const Json& shape, std::size_t from) {
  std::uint64_t count = 1;
  for (std::size_t d = from; d < shape.size(); ++d) count *= shape[d].get<std::uint64_t>();
  return count;
}

std::vector<FeatureRequest> Requests(const Json& spec) {
  std::vector<FeatureRequest> requests;
  for (const bool list : {false, true}) {
    for (const auto& [key, feature] : spec[list ? "lists" : "context"].items()) {
      FeatureRequest request{key.starts_with("hex:") ? Unhex(key.substr(4)) : key,
                             KindOf(feature["dtype"]), feature["kind"] != "fixed"};
      request.list = list;
      if (list) {
        request.fixed_has_default = request.variable || feature.value("allow_missing", true);
        if (!request.variable) {
          request.step_values = static_cast<std::uint32_t>(Count(feature["shape"], 1));
        }
      } else {
        request.fixed_has_default = feature.contains("default") && !feature["default"].is_null();
      }
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Ours ReadSequence(const Json& spec, const std::string& example) {
  const auto requests = Requests(spec);
  auto plan = FeaturePlan::Make(requests);
  SequenceParser parser(&*plan);
  std::vector<FeatureSpan> spans(requests.size());
  Ours ours;
  const auto record = std::as_bytes(std::span(example));
  ours.fault = parser.Parse(record, spans, &ours.counters, &ours.detail);
  if (ours.fault != FaultClass::kNone) return ours;
  std::size_t i = 0;
  for (const char* part : {"context", "lists"}) {
    for (const auto& [key, feature] : spec[part].items()) {
      const auto& request = requests[i];
      const auto& span = spans[i++];
      if (request.list) {
        ours.fault = CheckList(request, span, &ours.detail);
      } else if (request.variable) {
        ours.fault = CheckVariable(request, span, record, &ours.detail);
      } else {
        ours.fault = CheckFixed(request, span, Count(feature["shape"], 0), record, &ours.detail);
      }
      if (ours.fault != FaultClass::kNone) return ours;
      const bool defaulted = !request.list && request.fixed_has_default && span.kind == Kind::kNone;
      ours.values[std::string(part) + key] =
          defaulted ? Listed(feature["default"], "") : Values(span);
    }
  }
  return ours;
}

void CheckSequence(const Ours& ours, const Json& answer, const std::string& hex) {
  for (const char* part : {"context", "lists"}) {
    for (const auto& [key, feature] : answer[part].items()) {
      CHECK(ours.values.at(part + key) == Listed(feature, hex));
    }
  }
}

TEST_CASE("SequenceExamples: where TensorFlow and protobuf agree ours agrees, else it refuses",
          "[example][golden]") {
  std::ifstream in(test::GoldenDir() / "wire" / "sequence.jsonl");
  std::string line;
  std::map<std::string, int> count;
  while (std::getline(in, line)) {
    const auto vector = Json::parse(line);
    const std::string name = vector["name"];
    CAPTURE(name);
    if (!vector.contains("example_hex")) {
      bool read = true;
      for (const auto& hex : vector["examples_hex"]) {
        read = ReadSequence(vector["spec"], Unhex(hex)).fault == FaultClass::kNone && read;
      }
      CHECK(read == vector["batch"]["ok"].get<bool>());
      ++count[read ? "batch: read" : "batch: refused"];
      continue;
    }
    const std::string hex = vector["example_hex"];
    const Ours ours = ReadSequence(vector["spec"], Unhex(hex));
    const std::string category = Category(ours);
    CAPTURE(category);
    const bool read = ours.fault == FaultClass::kNone;
    if (vector["disagree"].get<bool>()) {
      if (read) CHECK(name.find("not-requested") != std::string::npos);
      ++count["differ: " + (read ? "read, for the difference lies where nobody asked" : category)];
    } else if (!vector["single"].value("ok", false)) {
      CHECK_FALSE(read);
      ++count["agree: refused by both"];
    } else if (read) {
      CheckSequence(ours, vector["single"], hex);
      ++count["agree: read"];
    } else {
      ++count["agree: " + category];
    }
  }
  const std::map<std::string, int> want = {
      {"agree: (s) a context feature without a kind", 12},
      {"agree: read", 221},
      {"agree: refused by both", 279},
      {"batch: read", 12},
      {"batch: refused", 6},
      {"differ: (s) a feature begins with a field that is not its list", 9},
      {"differ: (s) a feature goes on behind its list (two kinds, a list twice, or other bytes)",
       27},
      {"differ: (s) a feature list holds a field that is not a step", 9},
      {"differ: (s) a group", 1},
      {"differ: (s) a key that is not UTF-8", 2},
      {"differ: (s) a list goes on behind its packed chunk", 10},
      {"differ: (s) a map entry holds more than a key and a value", 21},
      {"differ: (s) a map entry that is not a key and then a value", 21},
      {"differ: (s) a map entry without a key or a value", 18},
      {"differ: (s) a map holds a field that is not an entry", 21},
      {"differ: a list runs past its feature", 2},
      {"differ: a packed chunk runs past its list", 1},
      {"differ: context or feature_lists run past the record", 2},
      {"differ: read, for the difference lies where nobody asked", 21}};
  CHECK(count == want);
}

}  // namespace
}  // namespace stoker::example
