// Pictures made for tests, and decoded for them.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "daemon/image/decode.h"
#include "daemon/image/resample.h"

// After <cstdio>: jpeglib.h uses FILE without including it.
#include <jpeglib.h>

namespace stoker::image {

inline std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// `change` may set anything that libjpeg's encoder knows, before it starts.
inline std::string Encode(const std::vector<std::uint8_t>& pixels, std::uint32_t height,
                          std::uint32_t width, int components, J_COLOR_SPACE space,
                          const std::function<void(jpeg_compress_struct*)>& change = nullptr) {
  jpeg_compress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&cinfo, &buffer, &bytes);
  cinfo.image_width = width;
  cinfo.image_height = height;
  cinfo.input_components = components;
  cinfo.in_color_space = space;
  jpeg_set_defaults(&cinfo);
  jpeg_set_quality(&cinfo, 95, TRUE);
  if (change) change(&cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  while (cinfo.next_scanline < height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + std::size_t{cinfo.next_scanline} * width *
                                                         static_cast<std::size_t>(components));
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  std::string out(reinterpret_cast<char*>(buffer), bytes);
  std::free(buffer);
  return out;
}

// Gray of 8 bits, written from the PNG specification.
inline std::string PngChunk(const std::string& type, const std::string& data) {
  const auto big = [](std::uint64_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  };
  const std::string body = type + data;
  const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
  return big(data.size()) + body + big(crc32(0, bytes, static_cast<uInt>(body.size())));
}

inline std::string EncodePng(const std::vector<std::uint8_t>& gray, std::uint32_t height,
                             std::uint32_t width) {
  std::string rows;
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(gray.data()) + y * width, width);
  }
  std::string packed(compressBound(rows.size()), '\0');
  uLongf n = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &n, reinterpret_cast<const Bytef*>(rows.data()),
           rows.size());
  packed.resize(n);
  const std::string header = {
      0, 0, 0, static_cast<char>(width), 0, 0, 0, static_cast<char>(height), 8, 0, 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) + PngChunk("IDAT", packed) +
         PngChunk("IEND", "");
}

inline void Progressive(jpeg_compress_struct* cinfo) { jpeg_simple_progression(cinfo); }

inline std::string Flat(std::uint8_t r, std::uint8_t g, std::uint8_t b, std::uint32_t side = 16) {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t i = 0; i < side * side; ++i) pixels.insert(pixels.end(), {r, g, b});
  return Encode(pixels, side, side, 3, JCS_RGB);
}

// Smooth shapes with a little noise: like a photo, every coefficient is used.
inline std::vector<std::uint8_t> Scene(std::uint32_t height, std::uint32_t width,
                                       std::uint32_t channels, std::uint32_t seed = 1) {
  std::vector<std::uint8_t> pixels(std::size_t{height} * width * channels);
  std::uint32_t state = seed;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto x = static_cast<std::uint32_t>(i / channels % width);
    const auto y = static_cast<std::uint32_t>(i / channels / width);
    const auto c = static_cast<std::uint32_t>(i % channels);
    state = state * 1664525 + 1013904223;
    const std::uint32_t wave = (x * (3 + c) + y * (5 - c) + x * y / 16) % 200;
    pixels[i] = static_cast<std::uint8_t>(wave + (state >> 24) % 56);
  }
  return pixels;
}

struct Decoded {
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::uint8_t> data;     // height x width x channels
  std::vector<std::uint16_t> values;  // where options.deep
  ImageCounters counters;
};

// The whole image, or a window of it.
inline Decoded Decode(const std::string& bytes, const DecodeOptions& options = {},
                      const Window* window = nullptr) {
  Decoded out;
  Decoder decoder;
  View view;
  out.fault = decoder.Open(Bytes(bytes), options, &out.counters, &out.detail);
  if (out.fault == FaultClass::kNone) {
    out.height = decoder.height();
    out.width = decoder.width();
    const Window whole = {0, 0, out.height, out.width};
    out.fault = decoder.Read(window == nullptr ? whole : *window, &view, &out.detail);
  }
  decoder.Close(&out.counters);
  for (std::size_t y = 0; out.fault == FaultClass::kNone && y < view.height; ++y) {
    for (std::size_t x = 0; x < view.width; ++x) {
      for (std::size_t c = 0; c < options.channels; ++c) {
        const std::size_t at = y * view.stride + x * kStep + c;
        if (view.bytes != nullptr) out.data.push_back(view.bytes[at]);
        if (view.floats != nullptr) {
          out.values.push_back(static_cast<std::uint16_t>(view.floats[at]));
        }
      }
    }
  }
  return out;
}

inline std::vector<std::uint8_t> Crop(const Decoded& image, std::uint32_t channels,
                                      const Window& window) {
  std::vector<std::uint8_t> out;
  for (std::uint32_t y = window.y; y < window.y + window.h; ++y) {
    const auto* from = image.data.data() + (std::size_t{y} * image.width + window.x) * channels;
    out.insert(out.end(), from, from + std::size_t{window.w} * channels);
  }
  return out;
}

// Resizes height x width x channels floats, channels of at most 4.
inline std::vector<float> Resize(const std::vector<float>& in, std::uint32_t height,
                                 std::uint32_t width, std::uint32_t channels,
                                 std::uint32_t to_height, std::uint32_t to_width,
                                 const Kernel& kernel, float round_between = 0.0f) {
  const auto pixels = [&](const std::vector<float>& from, std::size_t n, std::size_t step) {
    std::vector<float> out((n + 3) * kStep);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t c = 0; c < channels; ++c) out[i * kStep + c] = from[i * step + c];
    }
    return out;
  };
  const std::vector<float> source = pixels(in, std::size_t{height} * width, channels);
  View view = {nullptr, source.data(), width * kStep, height, width};
  Taps rows;
  Taps columns;
  Taps identity;
  MakeTaps(kernel, height, to_height, 0, to_height, &rows);
  MakeTaps(kernel, width, to_width, 0, to_width, &columns);
  Resampler resampler;
  Sink sink;
  sink.channels = kStep;
  std::vector<float> between((std::size_t{height} * to_width + 3) * kStep);
  if (round_between > 0.0f) {
    sink.out = between.data();
    sink.round_to = round_between;
    MakeIdentity(height, &identity);
    resampler.Run(view, identity, columns, Affine(), sink);
    view = {nullptr, between.data(), to_width * kStep, height, to_width};
    MakeIdentity(to_width, &columns);
    sink.round_to = 0.0f;
  }
  std::vector<float> wide(std::size_t{to_height} * to_width * kStep);
  sink.out = wide.data();
  resampler.Run(view, rows, columns, Affine(), sink);
  std::vector<float> out;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (i % kStep < channels) out.push_back(wide[i]);
  }
  return out;
}

}  // namespace stoker::image
