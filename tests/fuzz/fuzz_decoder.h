// What the fuzz targets of both decoders ask of any bytes: an outcome within the guards, the same
// whether the image is decoded whole or by window, and a window that equals the whole's.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "daemon/image/decode.h"
#include "daemon/image/image_program.h"

namespace stoker::image {

struct Attempt {
  FaultClass fault = FaultClass::kNone;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<float> values;  // whole pixels of the window
};

inline Attempt DecodeWindow(std::span<const std::byte> bytes, const DecodeOptions& options,
                            const Window* window) {
  Decoder decoder;
  Attempt attempt;
  ImageCounters counters;
  std::string detail;
  View view;
  attempt.fault = decoder.Open(bytes, options, &counters, &detail);
  if (attempt.fault == FaultClass::kNone) {
    attempt.height = decoder.height();
    attempt.width = decoder.width();
    const Window whole = {0, 0, attempt.height, attempt.width};
    attempt.fault = decoder.Read(window == nullptr ? whole : *window, &view, &detail);
  }
  if ((attempt.fault == FaultClass::kNone) != detail.empty()) std::abort();
  if (attempt.fault == FaultClass::kNone) {
    for (std::size_t y = 0; y < view.height; ++y) {
      for (std::size_t x = 0; x < view.width; ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          const std::size_t at = y * view.stride + x * kStep + c;
          attempt.values.push_back(view.bytes != nullptr ? view.bytes[at] : view.floats[at]);
        }
      }
    }
  }
  decoder.Close(&counters);
  return attempt;
}

inline void TryDecoder(const std::uint8_t* data, std::size_t size, DecodeOptions options) {
  // A copy of exactly that size, so that a sanitizer sees the first byte too many.
  const std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(data),
                                    reinterpret_cast<const std::byte*>(data) + size);
  options.max_pixels = 1 << 16;
  options.max_scans = 40;
  options.max_decoded_bytes = 1 << 22;
  const Attempt whole = DecodeWindow(copy, options, nullptr);
  if (whole.height == 0 || whole.width == 0) return;
  std::uint32_t seed = 2166136261u;
  for (std::size_t i = 0; i < size; ++i) seed = (seed ^ data[i]) * 16777619u;
  Window window;
  window.h = 1 + seed % whole.height;
  window.w = 1 + seed / 7 % whole.width;
  window.y = seed / 31 % (whole.height - window.h + 1);
  window.x = seed / 101 % (whole.width - window.w + 1);
  const Attempt part = DecodeWindow(copy, options, &window);
  if (part.fault != whole.fault) std::abort();
  if (whole.fault != FaultClass::kNone) return;
  std::size_t at = 0;
  for (std::size_t y = window.y; y < window.y + window.h; ++y) {
    for (std::size_t x = window.x; x < window.x + window.w; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        if (part.values[at++] != whole.values[(y * whole.width + x) * 3 + c]) std::abort();
      }
    }
  }
}

// The whole way of a row, with a worker that has seen the inputs before.
inline void TryProgram(const std::uint8_t* data, std::size_t size) {
  static const auto program = [] {
    ImageSpec spec;
    spec.decode.max_pixels = 1 << 16;
    spec.decode.orient = true;
    OpSpec crop;
    crop.type = OpSpec::Type::kRandomResizedCrop;
    crop.height = crop.width = 9;
    spec.ops = {crop};
    return *ImageProgram::Compile(spec);
  }();
  static ImageWorker worker;
  std::vector<std::uint8_t> out(program->row_bytes());
  ImageCounters counters;
  std::string detail;
  const std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(data),
                                    reinterpret_cast<const std::byte*>(data) + size);
  (void)program->Run(worker, copy, 1, 2, 3, out.data(), &counters, &detail);
}

}  // namespace stoker::image
