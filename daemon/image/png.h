// PNG: from bytes to pixels by libpng, as TensorFlow's decode_png gives them: palette, gray and
// alpha come to the channels asked for, alpha is dropped, 16 bits become 8 by their upper byte.
//
// A PNG is whole only with its IEND and with right checksums in all critical chunks, so every row
// is read whatever the window. Chunks that hold no pixels are passed over unread.
//
// Ownership: borrows the bytes from Open() to Close(). Thread-safety: one thread.
// Errors: a FaultClass with a sentence in *detail; libpng's warnings are counted, not printed.
#pragma once

#include <memory>
#include <vector>

#include "daemon/image/decode.h"

namespace stoker::image {

class PngDecoder {
 public:
  PngDecoder();
  PngDecoder(PngDecoder&&) noexcept;
  PngDecoder& operator=(PngDecoder&&) noexcept;
  ~PngDecoder();

  FaultClass Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                  ImageCounters* counters, std::string* detail);
  std::uint32_t height() const;
  std::uint32_t width() const;

  // Once after Open(): the window's pixels, in *pixels or, where options.deep, in *deep. May throw
  // std::bad_alloc.
  FaultClass Read(const Window& window, Pixels* pixels, std::vector<float>* deep, View* view,
                  std::string* detail);
  void Close(ImageCounters* counters);

 private:
  struct Job;
  std::unique_ptr<Job> job_;
};

}  // namespace stoker::image
