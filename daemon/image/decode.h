// Decoder: an image from its bytes, JPEG or PNG as the leading bytes say, whole or in part.
//
// Open() reads the header and judges it; Read() decodes a window, which equals the same window of
// the full decode pixel for pixel. Checks come in the order of the semantics page: leading bytes,
// guards from the header, completeness, decoding; the first failure names the class.
//
// Ownership: borrows the bytes from Open() to Close(); keeps its buffers between images, no state.
// Thread-safety: one thread. Errors: a FaultClass with a sentence in *detail; a library's warnings
// are counted, not printed. std::bad_alloc leaves Read(), and Close() is then safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/fault.h"
#include "daemon/image/pixels.h"

namespace stoker::image {

struct DecodeOptions {
  std::uint32_t channels = 3;  // 1 or 3
  bool fast_dct = false;       // JDCT_IFAST, TensorFlow's default; else JDCT_ISLOW, djpeg's
  bool orient = false;         // turns the image as its Exif orientation says
  bool deep = false;           // 16 bits a value, as floats of 0 to 65535
  bool tolerant = false;       // an incomplete JPEG is filled as libjpeg fills, and counted
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

class Decoder {
 public:
  Decoder();
  ~Decoder();

  FaultClass Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                  ImageCounters* counters, std::string* detail);
  std::uint32_t height() const;
  std::uint32_t width() const;

  // Once after Open(). *view stays until the next Open() or Trim(). REQUIRES: a window of at least
  // one pixel inside the image.
  FaultClass Read(const Window& window, View* view, std::string* detail);

  // Ends what Open() began; harmless twice. Counts the image's warnings.
  void Close(ImageCounters* counters);

  // Gives back the memory that a huge image took.
  void Trim();

 private:
  struct Parts;

  void Turned(const Window& window, View* view);
  void Deepen(View* view);

  std::unique_ptr<Parts> parts_;
  std::uint32_t height_ = 0;
  std::uint32_t width_ = 0;
  bool deepen_ = false;
};

}  // namespace stoker::image
