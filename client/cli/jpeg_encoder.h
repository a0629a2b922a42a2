// EncodeJpeg: pixels to a JPEG, for sample data.
//
// Thread-safety: plain function. Errors: kInvalidArgument or kResourceExhausted with libjpeg's own
//   sentence; libjpeg's habit of ending the process is not ours.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/base/status.h"

namespace stoker::cli {

// `rgb` holds height x width x 3 bytes. Quality 90, 4:2:0.
Result<std::string> EncodeJpeg(std::span<const std::uint8_t> rgb, std::uint32_t height,
                               std::uint32_t width);

}  // namespace stoker::cli
