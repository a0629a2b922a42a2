// The readings of TensorFlow and of C++ protobuf, for records that STRICT refuses.
//
// Each takes one side wherever the two differ, except where SEMANTICS makes a record malformed in
// every mode: lengths past what encloses them are never cut to what is there, as TensorFlow does,
// and features that nobody asked for are never looked into, as protobuf does.
//
// Ownership: spans borrow the record. Thread-safety: free functions. No allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/base/fault.h"
#include "daemon/example/feature_span.h"

namespace stoker::example {

class FeaturePlan;

// What one pass over a record finds. `found` and `seen` have one place for each key of the plan.
struct Findings {
  std::span<FeatureSpan> found;
  std::span<std::uint8_t> seen;  // whether the key came
  std::uint64_t duplicates = 0;
  bool has_lists = false;  // it has field 2, as SequenceExamples do
};

// REQUIRES: `found`, `seen` and `*detail` are empty.
FaultClass ReadAsTensorFlow(const FeaturePlan& plan, std::span<const std::byte> record,
                            Findings* findings, std::string* detail);
FaultClass ReadAsProtobuf(const FeaturePlan& plan, std::span<const std::byte> record,
                          Findings* findings, std::string* detail);

}  // namespace stoker::example
