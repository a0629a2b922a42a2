// What TensorFlow and protobuf answered for 1,788 vectors of Examples. STRICT agrees where they
// agree and refuses where they differ; TF and PROTOBUF take their sides. What falls under a line of
// the contract instead is counted under that line, so that nothing passes by accident.
#include "tests/support/catch.h"
#include "tests/unit/example/vectors.h"

namespace stoker::example {
namespace {

using Counts = std::map<std::string, int>;

std::vector<Json> Vectors() {
  std::ifstream in(test::GoldenDir() / "wire" / "example.jsonl");
  std::vector<Json> vectors;
  std::string line;
  while (std::getline(in, line)) vectors.push_back(Json::parse(line));
  return vectors;
}

std::string Lines(const Counts& counts) {
  std::string out = "\n";
  for (const auto& [what, n] : counts) out += "{\"" + what + "\", " + std::to_string(n) + "},\n";
  return out;
}

void CheckCounts(const Counts& count, const Counts& want) {
  if (count != want) std::fprintf(stderr, "%s", Lines(count).c_str());
  CHECK(count == want);
}

void CheckValues(const Ours& ours, const Json& values, const std::string& hex) {
  for (const auto& [key, feature] : values.items()) {
    CHECK(ours.values.at(key) == Listed(feature, hex));
  }
}

TEST_CASE("where TensorFlow and protobuf agree ours agrees, where they differ it refuses",
          "[example][golden]") {
  Counts count;
  for (const auto& vector : Vectors()) {
    if (!vector.contains("example_hex")) continue;
    const std::string name = vector["name"];
    CAPTURE(name);
    const std::string hex = vector["example_hex"];
    const Ours ours = Read(vector["spec"], Unhex(hex));
    const std::string category = Category(ours);
    CAPTURE(category);
    const auto& single = vector["single"];
    const bool read = ours.fault == FaultClass::kNone;
    CHECK(ours.counters.ambiguous == 0);
    if (vector["disagree"].get<bool>()) {
      ++count[read ? "differ: read, for the difference lies where nobody asked"
                   : "differ: " + category];
      if (read) CHECK((name.ends_with("not-requested") || name == "fuzz/077-flip"));
    } else if (!single.value("ok", false)) {
      CHECK_FALSE(read);
      ++count["agree: refused by both"];
    } else if (read) {
      CheckValues(ours, single["values"], hex);
      ++count["agree: read"];
    } else {
      ++count["agree: " + category];
    }
  }
  CheckCounts(
      count,
      {{"agree: (s) a bytes_list holds a field that is not its values", 3},
       {"agree: (s) a feature goes on behind its list (two kinds, a list twice, or other bytes)",
        12},
       {"agree: (s) a list goes on behind its packed chunk", 27},
       {"agree: (s) a list holds a field that is not its values, or packed and unpacked values", 6},
       {"agree: (s) a tag in over-long form", 8},
       {"agree: D8", 2},
       {"agree: read", 374},
       {"agree: refused by both", 763},
       {"differ: (s) a bytes_list holds a field that is not its values", 9},
       {"differ: (s) a feature begins with a field that is not its list", 13},
       {"differ: (s) a feature goes on behind its list (two kinds, a list twice, or other bytes)",
        99},
       {"differ: (s) a field number of 0 or above 2^29", 4},
       {"differ: (s) a group", 7},
       {"differ: (s) a key that is not UTF-8", 11},
       {"differ: (s) a list goes on behind its packed chunk", 45},
       {"differ: (s) a list holds a field that is not its values, or packed and unpacked values",
        48},
       {"differ: (s) a map entry holds more than a key and a value", 36},
       {"differ: (s) a map entry without exactly one key and one value", 40},
       {"differ: (s) a packed float chunk is not a whole number of floats", 27},
       {"differ: (s) a tag in over-long form", 3},
       {"differ: (s) features hold a field that is not a feature", 23},
       {"differ: (s) its last duplicate has no kind and an earlier one has", 45},
       {"differ: a byte string runs past its list", 6},
       {"differ: a feature runs past features", 19},
       {"differ: a field runs past the record", 1},
       {"differ: a key or value runs past its map entry", 12},
       {"differ: a list runs past its feature", 22},
       {"differ: a packed chunk runs past its list", 23},
       {"differ: features run past the record", 15},
       {"differ: read, for the difference lies where nobody asked", 10}});
}

TEST_CASE("mode TF reads what TensorFlow reads, but never past an end", "[example][golden]") {
  Counts count;
  for (const auto& vector : Vectors()) {
    if (!vector.contains("example_hex")) continue;
    const std::string name = vector["name"];
    CAPTURE(name);
    const std::string hex = vector["example_hex"];
    const Ours ours = Read(vector["spec"], Unhex(hex), Mode::kTensorFlow);
    const std::string category = Category(ours);
    CAPTURE(category);
    const bool read = ours.fault == FaultClass::kNone;
    const auto& single = vector["single"];
    if (single.contains("code") && single["code"] == "TypeError") {
      // TensorFlow's Python cannot sort such keys; its parser never saw the record.
      CHECK(read);
      ++count["read, where TensorFlow did not come to parse"];
    } else if (vector.contains("tf_memory_unsafe")) {
      CHECK_FALSE(read);
      ++count["refused, where TensorFlow writes past a tensor"];
    } else if (!single.value("ok", false)) {
      CHECK_FALSE(read);
      ++count["refused by both"];
    } else if (read) {
      CheckValues(ours, single["values"], hex);
      ++count[ours.counters.ambiguous > 0 ? "read alike, counted as ambiguous" : "read alike"];
    } else {
      CHECK(ours.fault == FaultClass::kMalformedExample);
      ++count[category == "a length runs past what encloses it" ? "D3: refused" : category];
    }
  }
  CheckCounts(count, {{"D3: refused", 97},
                      {"D8", 2},
                      {"read alike", 384},
                      {"read alike, counted as ambiguous", 229},
                      {"read, where TensorFlow did not come to parse", 5},
                      {"refused by both", 993},
                      {"refused, where TensorFlow writes past a tensor", 3}});
}

TEST_CASE("mode PROTOBUF reads what C++ protobuf reads, but looks at nothing unasked",
          "[example][golden]") {
  Counts count;
  for (const auto& vector : Vectors()) {
    if (!vector.contains("example_hex")) continue;
    const std::string name = vector["name"];
    CAPTURE(name);
    const std::string hex = vector["example_hex"];
    const Ours ours = Read(vector["spec"], Unhex(hex), Mode::kProtobuf);
    const std::string category = Category(ours);
    CAPTURE(category);
    const bool read = ours.fault == FaultClass::kNone;
    const auto& answer =
        vector.contains("protobuf_cpp") ? vector["protobuf_cpp"] : vector["protobuf"];
    if (!answer["ok"].get<bool>()) {
      if (read) CHECK((name.ends_with("not-requested") || name == "fuzz/077-flip"));
      ++count[read ? "read, for the damage lies where nobody asked" : "refused by both"];
    } else if (!answer["as_spec"]["ok"].get<bool>()) {
      CHECK_FALSE(read);
      ++count["not what the spec asks, in both"];
    } else if (read) {
      CheckValues(ours, answer["as_spec"]["values"], hex);
      ++count[ours.counters.ambiguous > 0 ? "read alike, counted as ambiguous" : "read alike"];
    } else {
      ++count[category];
    }
  }
  CheckCounts(count, {{"D8", 2},
                      {"not what the spec asks, in both", 293},
                      {"read alike", 374},
                      {"read alike, counted as ambiguous", 347},
                      {"read, for the damage lies where nobody asked", 10},
                      {"refused by both", 687}});
}

// One row after the other: what a batch holds is what its rows hold.
TEST_CASE("mode TF gives the rows of TensorFlow's batches", "[example][golden]") {
  Counts count;
  for (const auto& vector : Vectors()) {
    if (vector.contains("example_hex")) continue;
    CAPTURE(vector["name"].get<std::string>());
    std::map<std::string, std::vector<std::string>> joined;
    bool read = true;
    for (const auto& hex : vector["examples_hex"]) {
      const Ours ours = Read(vector["spec"], Unhex(hex), Mode::kTensorFlow);
      read = read && ours.fault == FaultClass::kNone;
      for (const auto& [key, values] : ours.values) {
        joined[key].insert(joined[key].end(), values.begin(), values.end());
      }
    }
    const auto& batch = vector["batch"];
    CHECK(read == batch["ok"].get<bool>());
    if (!read || !batch["ok"].get<bool>()) {
      ++count["refused by both"];
      continue;
    }
    bool alike = true;
    for (const auto& [key, feature] : batch["values"].items()) {
      const auto& spec = vector["spec"][key];
      // Rows padded to the longest are no row's own values.
      if (spec["kind"] == "fixed" && !spec["shape"].empty() && spec["shape"][0].is_null()) continue;
      if (joined[key] == Listed(feature, "")) continue;
      alike = false;
      CHECK(vector["name"].get<std::string>().ends_with("duplicate-then-no-kind"));
    }
    ++count[alike ? "read alike"
                  : "read as the single parser reads, which the batch parser does not"];
  }
  CheckCounts(count, {{"read alike", 51},
                      {"read as the single parser reads, which the batch parser does not", 6},
                      {"refused by both", 18}});
}

}  // namespace
}  // namespace stoker::example
