// SequenceParser: the requested features of a tf.train.SequenceExample, found in one pass.
//
// Requests with `list` read feature lists, the others the context. A list's span holds its steps;
// its values are those of all steps, one after the other. Every step is looked into, for the list's
// kind and count stand nowhere else. STRICT reading, as ExampleParser's; TensorFlow reads the two
// messages with different rules, so here a value before its key and a context feature without a
// kind are ambiguous as well.
//
// Ownership: spans borrow the record; borrows the plan. Thread-safety: one thread. No allocation
//   while records are good.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/example/example_parser.h"

namespace stoker::example {

class SequenceParser {
 public:
  explicit SequenceParser(const FeaturePlan* plan);

  // Fills `out`, one span for each request. Kinds and counts of the context are the checks' of
  // ExampleParser; those of lists are judged here, and CheckList() says whether one may be missing.
  FaultClass Parse(std::span<const std::byte> record, std::span<FeatureSpan> out,
                   ParseCounters* counters, std::string* detail);

 private:
  FaultClass ParseMap(bool lists, std::span<const std::byte> map, std::span<FeatureSpan> out,
                      std::string* detail);
  FaultClass ParseEntry(bool lists, std::span<const std::byte> entry, std::span<FeatureSpan> out,
                        std::string* detail);
  FaultClass ParseList(const FeatureRequest& request, std::span<const std::byte> list,
                       FeatureSpan* out, std::string* detail) const;

  const FeaturePlan* const plan_;
  std::vector<std::uint8_t> seen_;   // by request
  std::vector<std::uint8_t> unfit_;  // by request: the list, so far, is of a wrong kind or count
  std::uint64_t duplicates_ = 0;
};

// A missing list is kNone where the request allows it, and has no steps.
FaultClass CheckList(const FeatureRequest& request, const FeatureSpan& span, std::string* detail);

}  // namespace stoker::example
