// JPEG: from bytes to pixels, exactly as djpeg decodes them, whole or in part.
//
// libjpeg-turbo's scanline interface with a fresh decompressor for each image: tables of one file
// never reach the next. A window is decoded by region where that is exact and by whole rows where
// it is not (docs/design/images.md): its pixels are those of the full decode either way.
//
// Ownership: borrows the bytes from Open() to Close(). Thread-safety: one thread.
// Errors: a FaultClass with a sentence in *detail; libjpeg's warnings are counted, not printed.
#pragma once

#include <memory>

#include "daemon/image/decode.h"

namespace stoker::image {

// What a walk of the markers meets: segments by their length, entropy-coded data up to the next
// marker that is neither a restart nor stuffing.
struct JpegWalk {
  bool complete = false;  // an EOI
  bool plain = false;     // that EOI right behind the first scan
};
JpegWalk WalkJpeg(std::span<const std::byte> bytes);

class JpegDecoder {
 public:
  JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;
  ~JpegDecoder();

  // Reads the header and judges it.
  FaultClass Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                  ImageCounters* counters, std::string* detail);
  std::uint32_t height() const;
  std::uint32_t width() const;

  // Once after Open(): the window's pixels, in *pixels. May throw std::bad_alloc.
  FaultClass Read(const Window& window, Pixels* pixels, View* view, std::string* detail);

  // Ends what Open() began; harmless twice. Counts the image's warnings.
  void Close(ImageCounters* counters);

 private:
  struct Job;
  std::unique_ptr<Job> job_;
};

}  // namespace stoker::image
