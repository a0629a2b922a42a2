#include "daemon/image/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

// After <cstdio>: jpeglib.h uses FILE without including it.
#include <jpeglib.h>

namespace stoker::image {
namespace {

constexpr std::uint8_t kMarker = 0xff;
constexpr std::uint8_t kSoi = 0xd8;
constexpr std::uint8_t kEoi = 0xd9;
constexpr std::uint8_t kTem = 0x01;

bool IsRestart(std::uint8_t marker) { return marker >= 0xd0 && marker <= 0xd7; }

// Everything that a decode needs, without C++ objects on the frames that longjmp passes.
struct Job {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  const DecodeOptions* options;
  std::span<const std::byte> bytes;
  Pixels* pixels;
  FaultClass fault;
  char text[JMSG_LENGTH_MAX + 64];
  bool adobe;
};

Job* JobOf(j_common_ptr cinfo) { return static_cast<Job*>(cinfo->client_data); }

[[noreturn]] void Fail(Job* job, FaultClass fault) {
  job->fault = fault;
  std::longjmp(job->jump, 1);
}

void OnError(j_common_ptr cinfo) {
  Job* job = JobOf(cinfo);
  cinfo->err->format_message(cinfo, job->text);
  Fail(job, FaultClass::kBadImage);
}

// Warnings are counted by libjpeg itself; nothing is printed.
void OnMessage(j_common_ptr cinfo, int level) {
  if (level < 0) ++cinfo->err->num_warnings;
}

void OnProgress(j_common_ptr cinfo) {
  Job* job = JobOf(cinfo);
  const auto scans = static_cast<std::uint32_t>(job->cinfo.input_scan_number);
  if (scans <= job->options->max_scans) return;
  std::snprintf(job->text, sizeof(job->text), "more than %u scans", job->options->max_scans);
  Fail(job, FaultClass::kTooManyScans);
}

void CheckHeader(Job* job) {
  const auto& cinfo = job->cinfo;
  const auto& options = *job->options;
  const std::uint64_t pixels = std::uint64_t{cinfo.image_width} * cinfo.image_height;
  const bool cmyk = cinfo.jpeg_color_space == JCS_CMYK || cinfo.jpeg_color_space == JCS_YCCK;
  if (pixels > options.max_pixels ||
      pixels * (cmyk ? 4u : options.channels) > options.max_decoded_bytes) {
    std::snprintf(job->text, sizeof(job->text),
                  "%u x %u pixels are over max_pixels %llu or max_decoded_bytes %llu",
                  cinfo.image_width, cinfo.image_height,
                  static_cast<unsigned long long>(options.max_pixels),
                  static_cast<unsigned long long>(options.max_decoded_bytes));
    Fail(job, FaultClass::kImageTooLarge);
  }
  if (!IsCompleteJpeg(job->bytes)) {
    std::snprintf(job->text, sizeof(job->text),
                  "the JPEG is not complete: no end marker is reached");
    Fail(job, FaultClass::kBadImage);
  }
  if (cinfo.jpeg_color_space == JCS_UNKNOWN) {
    std::snprintf(job->text, sizeof(job->text),
                  "a JPEG of %d components has no colours that are known", cinfo.num_components);
    Fail(job, FaultClass::kBadImage);
  }
  if (cmyk && options.channels == 1) {
    std::snprintf(job->text, sizeof(job->text), "a CMYK JPEG cannot be delivered with 1 channel");
    Fail(job, FaultClass::kBadImage);
  }
}

bool Resize(std::vector<std::uint8_t>* data, std::size_t bytes) {
  try {
    data->resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The one function that setjmp returns into. Answers kNone or job->fault.
FaultClass Run(Job* job) {
  jpeg_decompress_struct* cinfo = &job->cinfo;
  if (setjmp(job->jump) != 0) {
    jpeg_destroy_decompress(cinfo);
    return job->fault;
  }
  jpeg_create_decompress(cinfo);
  cinfo->client_data = job;
  // A progressive bomb asks for coefficient memory by its header alone.
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<long>::max()) / 2;
  cinfo->mem->max_memory_to_use =
      static_cast<long>(std::min(job->options->max_decoded_bytes, most)) * 2;
  job->progress.progress_monitor = OnProgress;
  cinfo->progress = &job->progress;
  jpeg_mem_src(cinfo, reinterpret_cast<const unsigned char*>(job->bytes.data()), job->bytes.size());
  jpeg_read_header(cinfo, TRUE);
  CheckHeader(job);
  const bool cmyk = cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK;
  job->adobe = cinfo->saw_Adobe_marker != 0;
  cinfo->out_color_space = cmyk ? JCS_CMYK : job->options->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  cinfo->dct_method = job->options->fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  cinfo->do_fancy_upsampling = TRUE;
  jpeg_start_decompress(cinfo);
  job->pixels->height = cinfo->output_height;
  job->pixels->width = cinfo->output_width;
  job->pixels->channels = static_cast<std::uint32_t>(cinfo->output_components);
  const std::size_t stride = std::size_t{cinfo->output_width} * job->pixels->channels;
  if (!Resize(&job->pixels->data, stride * cinfo->output_height)) {
    std::snprintf(job->text, sizeof(job->text), "no memory for %u x %u pixels", cinfo->output_width,
                  cinfo->output_height);
    Fail(job, FaultClass::kImageTooLarge);
  }
  while (cinfo->output_scanline < cinfo->output_height) {
    JSAMPROW row = job->pixels->data.data() + stride * cinfo->output_scanline;
    jpeg_read_scanlines(cinfo, &row, 1);
  }
  jpeg_finish_decompress(cinfo);
  jpeg_destroy_decompress(cinfo);
  return FaultClass::kNone;
}

// TensorFlow's rule: k * c / 255, truncated. Adobe stores inverted values; others are inverted
// first.
void CmykToRgb(Pixels* pixels, bool adobe) {
  const std::size_t n = std::size_t{pixels->height} * pixels->width;
  const unsigned flip = adobe ? 0 : 255;
  std::uint8_t* data = pixels->data.data();
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned k = data[4 * i + 3] ^ flip;
    for (std::size_t c = 0; c < 3; ++c) {
      data[3 * i + c] = static_cast<std::uint8_t>(k * (data[4 * i + c] ^ flip) / 255);
    }
  }
  pixels->channels = 3;
  pixels->data.resize(3 * n);
}

}  // namespace

const char* FormatName(std::span<const std::byte> bytes) {
  const auto begins = [bytes](std::string_view text, std::size_t at = 0) {
    return bytes.size() >= at + text.size() &&
           std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
  };
  if (begins("\xff\xd8\xff")) return "JPEG";
  if (begins("\x89PNG\r\n\x1a\n")) return "PNG";
  if (begins("GIF8")) return "GIF";
  if (begins("BM")) return "BMP";
  if (begins("RIFF") && begins("WEBP", 8)) return "WebP";
  if (begins(std::string_view("II*\0", 4)) || begins(std::string_view("MM\0*", 4))) return "TIFF";
  if (begins(std::string_view("\0\0\0\x0cjP  ", 8)) || begins("\xff\x4f\xff\x51"))
    return "JPEG 2000";
  return "an unknown format";
}

bool IsCompleteJpeg(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const std::uint8_t* const end = p + bytes.size();
  if (bytes.size() < 4 || p[0] != kMarker || p[1] != kSoi) return false;
  p += 2;
  while (true) {
    // The next marker; bytes between segments, and entropy-coded data, are passed over.
    p = static_cast<const std::uint8_t*>(
        std::memchr(p, kMarker, static_cast<std::size_t>(end - p)));
    if (p == nullptr) return false;
    while (p < end && *p == kMarker) ++p;
    if (p == end) return false;
    const std::uint8_t marker = *p++;
    if (marker == kEoi) return true;
    if (marker == 0 || marker == kTem || marker == kSoi || IsRestart(marker)) continue;
    if (end - p < 2) return false;
    const std::size_t length = std::size_t{p[0]} << 8 | p[1];
    if (length < 2 || static_cast<std::size_t>(end - p) < length) return false;
    p += length;
  }
}

FaultClass DecodeJpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                      Pixels* pixels, ImageCounters* counters, std::string* detail) {
  Job job = {};
  job.options = &options;
  job.bytes = bytes;
  job.pixels = pixels;
  job.cinfo.err = jpeg_std_error(&job.errors);
  job.cinfo.client_data = &job;
  job.errors.error_exit = OnError;
  job.errors.emit_message = OnMessage;
  const FaultClass fault = Run(&job);
  counters->jpeg_warnings += job.errors.num_warnings > 0 ? 1 : 0;
  if (fault != FaultClass::kNone) {
    *detail = job.text;
    return fault;
  }
  if (pixels->channels == 4) CmykToRgb(pixels, job.adobe);
  return FaultClass::kNone;
}

}  // namespace stoker::image
