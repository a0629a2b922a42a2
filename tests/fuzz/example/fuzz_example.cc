// Any bytes as an Example: never read past, and what is accepted can be copied out whole.
#include <cstdint>
#include <vector>

#include "daemon/example/example_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker::example;
  static const FeaturePlan plan = *FeaturePlan::Make({{"i", Kind::kInt64, true, false},
                                                      {"f", Kind::kFloat, true, false},
                                                      {"b", Kind::kBytes, true, false}});
  static ExampleParser parser(&plan);
  // A copy of exactly that size, so that a sanitizer sees the first byte too many.
  const std::vector<std::byte> record(reinterpret_cast<const std::byte*>(data),
                                      reinterpret_cast<const std::byte*>(data) + size);
  FeatureSpan spans[3];
  ParseCounters counters;
  std::string detail;
  if (parser.Parse(record, spans, &counters, &detail) == stoker::FaultClass::kNone) {
    for (const FeatureSpan& span : spans) {
      if (span.kind == Kind::kInt64) {
        std::vector<std::int64_t> values(span.count);
        CopyInt64(span, values.data());
      } else if (span.kind == Kind::kFloat) {
        std::vector<float> values(span.count);
        CopyFloat(span, values.data());
      } else if (span.kind == Kind::kBytes) {
        std::uint64_t total = 0;
        ForEachBytes(span, [&total](std::span<const std::byte> value) {
          for (const std::byte byte : value) total += static_cast<std::uint64_t>(byte);
        });
        (void)BytesTotal(span);
      }
    }
  }
  (void)PresentKeys(record);
  std::vector<FeatureSummary> features;
  (void)Summarize(record, &features);
  return 0;
}
