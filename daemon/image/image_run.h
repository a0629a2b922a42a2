// ImageRun: one image on its way through a program.
//
// Geometry is noted and not done: the source window, at most one resize, the window of its result
// that is seen, and whether it is mirrored. Resolve() does all of it in one pass, decoding no more
// than the taps read. An operation that needs pixels, or a second resize, resolves what is noted
// into a buffer first and goes on from there.
//
// Ownership: borrows everything for one call of ImageProgram::Run. Thread-safety: one thread.
// Errors: a FaultClass with a sentence in *detail. May throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/image/colour.h"
#include "daemon/image/image_program.h"

namespace stoker::image {

class ImageRun {
 public:
  ImageRun(const ImageSpec& spec, ImageWorker* worker, std::string* detail)
      : spec_(spec), worker_(*worker), detail_(*detail) {}

  FaultClass Open(std::span<const std::byte> encoded, ImageCounters* counters);
  FaultClass Apply(const OpSpec& op, RowRandom random);
  FaultClass Write(const Affine& numbers, void* out);

 private:
  std::uint32_t height() const { return resized_ ? out_.h : source_.h; }
  std::uint32_t width() const { return resized_ ? out_.w : source_.w; }
  // 0 where the tensor holds floats; else the largest value, and steps round as integers would.
  float round_to() const;

  FaultClass CheckStep(std::uint64_t height, std::uint64_t width);
  FaultClass CropTo(const OpSpec& op, const char* name, RowRandom* random);
  FaultClass ResizeTo(std::uint64_t height, std::uint64_t width, const OpSpec& op);
  FaultClass Pad(std::uint32_t padding);
  FaultClass Colour(const OpSpec& op, RowRandom* random);
  void Crop(Window window);
  FaultClass Resolve(const Affine& numbers, const Sink& sink);
  FaultClass Materialise();

  const ImageSpec& spec_;
  ImageWorker& worker_;
  std::string& detail_;

  bool decoded_ = false;
  View view_;       // once decoded
  int buffer_ = 0;  // of the worker's, the one that view_ does not lie in
  Window source_;   // of the image, or of view_
  bool resized_ = false;
  Kernel kernel_;
  std::uint32_t to_height_ = 0;
  std::uint32_t to_width_ = 0;
  Window out_;  // of the resized image
  bool mirror_x_ = false;
  bool mirror_y_ = false;
};

}  // namespace stoker::image
