#include "daemon/base/fault.h"

#include <array>

namespace stoker {

std::string_view FaultName(FaultClass fault) {
  static constexpr std::array<std::string_view, kFaultClasses> kNames = {
      "none",
      "truncated-header",
      "truncated-payload",
      "header-crc-mismatch",
      "payload-crc-mismatch",
      "record-too-large",
      "not-a-tfrecord",
      "compression-mismatch",
      "compressed-truncated",
      "compressed-corrupt",
      "shard-changed",
      "read-error",
      "malformed-example",
      "ambiguous-example",
      "feature-missing",
      "feature-kind",
      "feature-count",
      "bad-image",
      "image-too-large",
      "too-many-scans",
      "unsupported-image-format",
      "batch-overflow",
  };
  return kNames[static_cast<std::size_t>(fault)];
}

}  // namespace stoker
