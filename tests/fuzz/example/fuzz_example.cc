// Any bytes as an Example: never read past, and what is accepted can be copied out whole.
#include <cstdint>
#include <cstdlib>
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
  for (const Mode mode : {Mode::kTensorFlow, Mode::kProtobuf}) {
    ExampleParser loose(&plan, mode);
    const auto fault = loose.Parse(record, spans, &counters, &detail);
    if (fault == stoker::FaultClass::kAmbiguousExample) std::abort();
    for (const FeatureSpan& span : spans) {
      if (fault != stoker::FaultClass::kNone) break;
      std::vector<std::int64_t> values(span.count);
      if (span.kind == Kind::kInt64) CopyInt64(span, values.data());
      if (span.kind == Kind::kFloat) CopyFloat(span, reinterpret_cast<float*>(values.data()));
      if (span.kind == Kind::kBytes) (void)BytesTotal(span);
    }
  }
  // Once more with a byte changed: what a parser remembers of the record before changes nothing.
  if (size > 2) {
    std::vector<std::byte> changed = record;
    changed[data[0] % size] ^= static_cast<std::byte>(data[1]);
    ExampleParser warm(&plan);
    for (int i = 0; i < 3; ++i) (void)warm.Parse(record, spans, &counters, &detail);
    FeatureSpan fresh_spans[3];
    ParseCounters warm_counters;
    ParseCounters fresh_counters;
    ExampleParser fresh(&plan);
    const auto fresh_fault = fresh.Parse(changed, fresh_spans, &fresh_counters, &detail);
    if (warm.Parse(changed, spans, &warm_counters, &detail) != fresh_fault) std::abort();
    if (!(warm_counters == fresh_counters)) std::abort();
    for (int i = 0; fresh_fault == stoker::FaultClass::kNone && i < 3; ++i) {
      if (spans[i].kind != fresh_spans[i].kind || spans[i].packed != fresh_spans[i].packed ||
          spans[i].count != fresh_spans[i].count ||
          spans[i].bytes.size() != fresh_spans[i].bytes.size() ||
          (!spans[i].bytes.empty() && spans[i].bytes.data() != fresh_spans[i].bytes.data())) {
        std::abort();
      }
    }
  }
  (void)PresentKeys(record);
  std::vector<FeatureSummary> features;
  (void)Summarize(record, &features);
  return 0;
}
