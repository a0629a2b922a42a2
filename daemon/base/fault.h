// FaultClass: what is wrong with one record, in one word. The names are those of the semantics
// reference (docs/reference/semantics.md) and appear in errors, counters and logs.
//
// A function that looks at one record answers a FaultClass and, when it is not kNone, writes a
// sentence into `*detail` (feature, declared, found). The caller that knows shard, record and
// offset adds the place. Nothing allocates while records are good.
#pragma once

#include <cstdint>
#include <string_view>

namespace stoker {

enum class FaultClass : std::uint8_t {
  kNone = 0,
  // Framing (section 1 of the semantics).
  kTruncatedHeader,
  kTruncatedPayload,
  kHeaderCrcMismatch,
  kPayloadCrcMismatch,
  kRecordTooLarge,
  kNotATfRecord,
  kCompressionMismatch,
  kCompressedTruncated,
  kCompressedCorrupt,
  kShardChanged,
  kReadError,
  // Examples (section 2).
  kMalformedExample,
  kAmbiguousExample,
  kFeatureMissing,
  kFeatureKind,
  kFeatureCount,
  // Images (section 3).
  kBadImage,
  kImageTooLarge,
  kTooManyScans,
  kUnsupportedImageFormat,
  // Batches.
  kBatchOverflow,
};
inline constexpr int kFaultClasses = static_cast<int>(FaultClass::kBatchOverflow) + 1;

// "payload-crc-mismatch" and its like; "none" for kNone.
std::string_view FaultName(FaultClass fault);

}  // namespace stoker
