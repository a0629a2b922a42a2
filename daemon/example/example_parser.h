// ExampleParser: the requested features of a tf.train.Example, found in one pass over its bytes.
//
// Nothing is copied and nothing is built: a FeatureSpan says where a feature's values lie in the
// record. Features that nobody asked for are passed over by their length and never looked into.
// The parser remembers in which order the keys of the last record came, so that the records of one
// writer cost a comparison a key and no search; and the layout of whole records, so that those of
// one shape cost a comparison of their structure and no parsing at all.
//
// Mode STRICT: where TensorFlow's parser and protobuf would read a record differently the record is
// `ambiguous-example` and the detail names the case; what canonical writers produce never is. TF
// and PROTOBUF read such a record once more, with that reader's rules (readings.h), and count it.
//
// Ownership: spans borrow the record's bytes. Thread-safety: a FeaturePlan is immutable; a parser
//   belongs to one thread. No allocation while records are good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "daemon/example/feature_span.h"
#include "daemon/example/layout_memo.h"
#include "daemon/example/protobuf_walk.h"
#include "daemon/example/readings.h"
#include "daemon/example/wire.h"

namespace stoker::example {

const char* KindName(Kind kind);

enum class Mode : std::uint8_t { kStrict, kTensorFlow, kProtobuf };

struct FeatureRequest {
  std::string name;
  Kind kind = Kind::kInt64;
  bool variable = false;           // any number of values
  bool fixed_has_default = false;  // may be missing
  bool list = false;               // a feature list of a SequenceExample
  std::uint32_t step_values = 0;   // lists: values of each step; 0: any number
};

class FeaturePlan {
 public:
  static Result<FeaturePlan> Make(std::vector<FeatureRequest> requests);

  std::size_t size() const { return requests_.size(); }
  const FeatureRequest& request(std::size_t i) const { return requests_[i]; }
  const std::vector<std::string>& keys() const { return keys_; }
  // Requests of one key stand together: [key_first(k), key_first(k + 1)) of order().
  const std::vector<std::uint32_t>& order() const { return order_; }
  std::uint32_t key_first(std::size_t key) const { return key_first_[key]; }
  // The key's number, or -1.
  int Find(std::string_view key) const;

 private:
  std::vector<FeatureRequest> requests_;
  std::vector<std::string> keys_;  // distinct, sorted
  std::vector<std::uint32_t> key_first_;
  std::vector<std::uint32_t> order_;
};

struct ParseCounters {
  std::uint64_t duplicate_keys = 0;
  std::uint64_t ambiguous = 0;  // read one way where two readers differ

  bool operator==(const ParseCounters&) const = default;
};

class ExampleParser {
 public:
  // Borrows the plan.
  explicit ExampleParser(const FeaturePlan* plan, Mode mode = Mode::kStrict);

  // Fills `out`, one span for each request. Kinds and counts are the checks' below.
  FaultClass Parse(std::span<const std::byte> record, std::span<FeatureSpan> out,
                   ParseCounters* counters, std::string* detail);

 private:
  struct Remembered {
    std::string key;
    int number = -1;
  };

  FaultClass ParseAnew(std::span<const std::byte> record, std::span<FeatureSpan> out,
                       ParseCounters* counters, std::string* detail);
  // As ParseAnew(), with the rules of the mode's own reader.
  FaultClass ParseLoosely(std::span<const std::byte> record, std::span<FeatureSpan> out,
                          ParseCounters* counters, std::string* detail);
  // What the plan asks for of what was found.
  FaultClass HandOut(bool has_lists, std::span<FeatureSpan> out, std::string* detail) const;
  FaultClass ParseFeatures(std::span<const std::byte> features, std::string* detail);
  FaultClass ParseEntry(std::span<const std::byte> entry, std::string* detail);
  int NumberOf(std::span<const std::byte> key);

  const FeaturePlan* const plan_;
  const Mode mode_;
  LayoutMemo memo_;
  std::vector<FeatureSpan> found_;      // by key
  std::vector<std::uint8_t> seen_;      // by key: 0 not yet, 1 without kind, 2 with one
  std::vector<Remembered> remembered_;  // by place in the record
  std::size_t place_ = 0;
  std::uint64_t duplicates_ = 0;
};

// Whether bytes are UTF-8 (RFC 3629). Public for tools.
bool IsUtf8(std::string_view text);

// Reads one Feature message. Public for tools.
FaultClass ParseFeature(std::span<const std::byte> feature, FeatureSpan* out, const char** what);

// Fixed features need exactly `expected` values of the declared kind; a missing one is kNone where
// it may be, and its span has kind kNone. Otherwise a fault, named with feature, declared and
// found; a missing feature lists the keys that are there.
FaultClass CheckFixed(const FeatureRequest& request, const FeatureSpan& span,
                      std::uint64_t expected, std::span<const std::byte> record,
                      std::string* detail);
// Any number of values of the declared kind; a missing feature has none.
FaultClass CheckVariable(const FeatureRequest& request, const FeatureSpan& span,
                         std::span<const std::byte> record, std::string* detail);

// `dst` has room for span.count values. REQUIRES: the kind.
void CopyInt64(const FeatureSpan& span, std::int64_t* dst);
void CopyFloat(const FeatureSpan& span, float* dst);

// Calls f(const FeatureSpan&) for each step of a feature list, in order. REQUIRES: `steps`.
template <typename F>
void ForEachStep(const FeatureSpan& span, F&& f) {
  Cursor cursor(span.bytes);
  std::span<const std::byte> bytes;
  FeatureSpan step;
  const char* what = "";
  while (cursor.Skip(1) && cursor.Bytes(&bytes)) {
    (void)ParseFeature(bytes, &step, &what);
    f(step);
  }
}

// Calls f(std::span<const std::byte>) for each byte string. REQUIRES: kind kBytes.
template <typename F>
void ForEachBytes(const FeatureSpan& span, const F& f) {
  if (span.steps) {
    return ForEachStep(span, [&f](const FeatureSpan& step) { ForEachBytes(step, f); });
  }
  if (span.merged) {
    return ForEachMergedRun(span.bytes,
                            [&f](std::span<const std::byte> value, std::uint32_t) { f(value); });
  }
  Cursor cursor(span.bytes);
  std::span<const std::byte> value;
  while (cursor.Skip(1) && cursor.LooseBytes(&value)) f(value);
}
std::uint64_t BytesTotal(const FeatureSpan& span);

// The keys of a record whose features have a kind, each once, as far as the record can be read.
std::vector<std::string> PresentKeys(std::span<const std::byte> record);

// What a record is, told by its bytes alone.
enum class RecordKind { kExample, kSequenceExample, kOther };
struct FeatureSummary {
  std::string name;
  FeatureSpan span;
};
// All features of an Example, in the record's order, the last of duplicates alone. kOther where it
// is not one (and *features is empty).
RecordKind Summarize(std::span<const std::byte> record, std::vector<FeatureSummary>* features);

}  // namespace stoker::example
