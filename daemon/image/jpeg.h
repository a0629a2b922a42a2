// JPEG: from bytes to pixels, exactly as djpeg decodes them.
//
// libjpeg-turbo's scanline interface with a fresh decompressor for each image: tables of one file
// never reach the next. Checks come in the order of the semantics page: leading bytes, guards from
// the header, completeness, decoding; the first failure names the class.
//
// Ownership: *pixels is the caller's and reused. Thread-safety: plain functions.
// Errors: a FaultClass with a sentence in *detail; libjpeg's warnings are counted, not printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"

namespace stoker::image {

// Height x width x channels, uint8, rows one after the other.
struct Pixels {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
  std::vector<std::uint8_t> data;
};

struct DecodeOptions {
  std::uint32_t channels = 3;  // 1 or 3
  bool fast_dct = false;       // JDCT_IFAST, TensorFlow's default; else JDCT_ISLOW, djpeg's
  std::uint64_t max_pixels = 178000000;
  std::uint32_t max_scans = 500;
  std::uint64_t max_decoded_bytes = std::uint64_t{1} << 30;
};

struct ImageCounters {
  std::uint64_t jpeg_warnings = 0;
  std::uint64_t png_warnings = 0;
  std::uint64_t truncated = 0;
};

// What the leading bytes are: "JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", "JPEG 2000", or
// "an unknown format".
const char* FormatName(std::span<const std::byte> bytes);

// Whether a walk of the markers meets an EOI: segments by their length, entropy-coded data up to
// the next marker that is neither a restart nor stuffing.
bool IsCompleteJpeg(std::span<const std::byte> bytes);

FaultClass DecodeJpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                      Pixels* pixels, ImageCounters* counters, std::string* detail);

}  // namespace stoker::image
