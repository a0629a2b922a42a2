#include "daemon/image/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <limits>

// After <cstdio>: jpeglib.h uses FILE without including it.
#include <jerror.h>
#include <jpeglib.h>

namespace stoker::image {

// Everything that a decode needs, without C++ objects on the frames that longjmp passes.
struct JpegDecoder::Job {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  DecodeOptions options;
  std::span<const std::byte> bytes;
  FaultClass fault;
  char text[JMSG_LENGTH_MAX + 64];
  std::uint32_t left;  // columns and rows that libjpeg delivers, once started
  std::uint32_t wide;
  std::uint32_t items;  // of a pixel that libjpeg writes: 1 or 4
  bool open;
  bool cmyk;
  bool truncated;
  bool plain;  // nothing but the EOI behind the first scan
  bool whole;  // the file is read to its end
};

namespace {

constexpr std::uint8_t kMarker = 0xff;
constexpr std::uint8_t kSoi = 0xd8;
constexpr std::uint8_t kEoi = 0xd9;
constexpr std::uint8_t kSos = 0xda;
constexpr std::uint8_t kTem = 0x01;

// Fancy upsampling looks at most so many pixels to a side of a window.
constexpr std::uint32_t kReach = 2;

// A header may promise millions of pixels and hundreds of almost empty scans, each of which costs
// a walk over all of them.
constexpr std::uint64_t kScanWork = 32;

bool IsRestart(std::uint8_t marker) { return marker >= 0xd0 && marker <= 0xd7; }

// A type that the callbacks can name: Job is private to the class.
template <typename Job>
struct Callbacks {
  static Job* Of(j_common_ptr cinfo) { return static_cast<Job*>(cinfo->client_data); }

  [[noreturn]] static void Fail(Job* job, FaultClass fault) {
    job->fault = fault;
    std::longjmp(job->jump, 1);
  }

  static void OnError(j_common_ptr cinfo) {
    Job* job = Of(cinfo);
    cinfo->err->format_message(cinfo, job->text);
    const int code = cinfo->err->msg_code;
    const bool memory = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
    Fail(job, memory ? FaultClass::kImageTooLarge : FaultClass::kBadImage);
  }

  // Warnings are counted by libjpeg itself; nothing is printed.
  static void OnMessage(j_common_ptr cinfo, int level) {
    if (level < 0) ++cinfo->err->num_warnings;
  }

  static void OnProgress(j_common_ptr cinfo) {
    Job* job = Of(cinfo);
    const auto scans = static_cast<std::uint32_t>(job->cinfo.input_scan_number);
    const std::uint64_t pixels = std::uint64_t{job->cinfo.image_width} * job->cinfo.image_height;
    if (scans > job->options.max_scans) {
      std::snprintf(job->text, sizeof(job->text), "more than %u scans", job->options.max_scans);
      Fail(job, FaultClass::kTooManyScans);
    }
    if (pixels != 0 && scans > 1 && scans / kScanWork > job->options.max_pixels / pixels) {
      std::snprintf(job->text, sizeof(job->text),
                    "%u scans of %u x %u pixels are over %llu times max_pixels", scans,
                    job->cinfo.image_width, job->cinfo.image_height,
                    static_cast<unsigned long long>(kScanWork));
      Fail(job, FaultClass::kTooManyScans);
    }
  }

  static void CheckHeader(Job* job) {
    const auto& cinfo = job->cinfo;
    const auto& options = job->options;
    const std::uint64_t pixels = std::uint64_t{cinfo.image_width} * cinfo.image_height;
    if (pixels > options.max_pixels ||
        pixels * (job->cmyk ? 4u : options.channels) > options.max_decoded_bytes) {
      std::snprintf(job->text, sizeof(job->text),
                    "%u x %u pixels are over max_pixels %llu or max_decoded_bytes %llu",
                    cinfo.image_width, cinfo.image_height,
                    static_cast<unsigned long long>(options.max_pixels),
                    static_cast<unsigned long long>(options.max_decoded_bytes));
      Fail(job, FaultClass::kImageTooLarge);
    }
    const JpegWalk walk = WalkJpeg(job->bytes);
    job->truncated = !walk.complete;
    job->plain = walk.plain;
    if (!walk.complete && !options.tolerant) {
      std::snprintf(job->text, sizeof(job->text),
                    "the JPEG is not complete: no end marker is reached");
      Fail(job, FaultClass::kBadImage);
    }
    if (cinfo.jpeg_color_space == JCS_UNKNOWN) {
      std::snprintf(job->text, sizeof(job->text),
                    "a JPEG of %d components has no colours that are known", cinfo.num_components);
      Fail(job, FaultClass::kBadImage);
    }
    if (job->cmyk && options.channels == 1) {
      std::snprintf(job->text, sizeof(job->text), "a CMYK JPEG cannot be delivered with 1 channel");
      Fail(job, FaultClass::kBadImage);
    }
  }

  // The functions that setjmp returns into: Header, Start and Rows. Each answers kNone or
  // job->fault.
  static FaultClass Header(Job* job) {
    jpeg_decompress_struct* cinfo = &job->cinfo;
    if (setjmp(job->jump) != 0) return job->fault;
    jpeg_create_decompress(cinfo);
    job->open = true;
    cinfo->client_data = job;
    // A progressive bomb asks for coefficient memory by its header alone.
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<long>::max()) / 2;
    cinfo->mem->max_memory_to_use =
        static_cast<long>(std::min(job->options.max_decoded_bytes, most)) * 2;
    job->progress.progress_monitor = OnProgress;
    cinfo->progress = &job->progress;
    jpeg_mem_src(cinfo, reinterpret_cast<const unsigned char*>(job->bytes.data()),
                 job->bytes.size());
    jpeg_read_header(cinfo, TRUE);
    job->cmyk = cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK;
    CheckHeader(job);
    cinfo->out_color_space = job->cmyk                    ? JCS_CMYK
                             : job->options.channels == 1 ? JCS_GRAYSCALE
                                                          : JCS_EXT_RGBX;
    job->items = cinfo->out_color_space == JCS_GRAYSCALE ? 1 : kStep;
    cinfo->dct_method = job->options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    cinfo->do_fancy_upsampling = TRUE;
    return FaultClass::kNone;
  }

  // Smoothing between blocks of an unfinished progressive image looks further than kReach.
  static bool IsSmoothed(const jpeg_decompress_struct& cinfo) {
    if (!cinfo.progressive_mode || cinfo.coef_bits == nullptr) return false;
    for (int c = 0; c < cinfo.num_components; ++c) {
      for (int i = 1; i < 10; ++i) {
        if (cinfo.coef_bits[c][i] != 0) return true;
      }
    }
    return false;
  }

  static FaultClass Start(Job* job, const Window& window) {
    jpeg_decompress_struct* cinfo = &job->cinfo;
    if (setjmp(job->jump) != 0) return job->fault;
    jpeg_start_decompress(cinfo);
    job->left = 0;
    job->wide = cinfo->output_width;
    // Several scans have all been read by now. Behind a single one there may be segments that are
    // refused: such a file is read to its end, so that the answer does not depend on the window.
    job->whole = !job->plain && !jpeg_has_multiple_scans(cinfo);
    if (job->whole) return FaultClass::kNone;
    if (window.w < cinfo->output_width && !IsSmoothed(*cinfo)) {
      JDIMENSION left = window.x < kReach ? 0 : window.x - kReach;
      JDIMENSION wide = std::min(window.x + window.w + kReach, cinfo->output_width) - left;
      jpeg_crop_scanline(cinfo, &left, &wide);
      job->left = left;
      job->wide = cinfo->output_width;
    }
    if (window.y > 0) jpeg_skip_scanlines(cinfo, window.y);
    return FaultClass::kNone;
  }

  static FaultClass Rows(Job* job, Pixels* pixels, const Window& window) {
    jpeg_decompress_struct* cinfo = &job->cinfo;
    if (setjmp(job->jump) != 0) return job->fault;
    const std::uint32_t end = job->whole ? cinfo->output_height : window.y + window.h;
    while (cinfo->output_scanline < end) {
      const std::uint32_t y = cinfo->output_scanline;
      // Rows above the window are overwritten by its first; those below share one row behind it.
      const std::uint32_t to = y < window.y ? 0 : std::min(y - window.y, window.h);
      JSAMPROW row = pixels->row(to);
      jpeg_read_scanlines(cinfo, &row, 1);
    }
    if (job->whole) jpeg_finish_decompress(cinfo);
    return FaultClass::kNone;
  }
};

// TensorFlow's rule: k * c / 255, truncated. Adobe stores inverted values; others are inverted
// first.
void CmykToRgb(std::uint8_t* row, std::uint32_t width, bool adobe) {
  const unsigned flip = adobe ? 0 : 255;
  for (std::size_t x = 0; x < width; ++x, row += kStep) {
    const unsigned k = row[3] ^ flip;
    for (std::size_t c = 0; c < 3; ++c) {
      row[c] = static_cast<std::uint8_t>(k * (row[c] ^ flip) / 255);
    }
  }
}

}  // namespace

JpegWalk WalkJpeg(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const std::uint8_t* const end = p + bytes.size();
  if (bytes.size() < 4 || p[0] != kMarker || p[1] != kSoi) return {};
  p += 2;
  std::uint8_t before = 0;  // the segment before the marker
  int scans = 0;
  while (true) {
    // The next marker; bytes between segments, and entropy-coded data, are passed over.
    p = static_cast<const std::uint8_t*>(
        std::memchr(p, kMarker, static_cast<std::size_t>(end - p)));
    if (p == nullptr) return {};
    while (p < end && *p == kMarker) ++p;
    if (p == end) return {};
    const std::uint8_t marker = *p++;
    if (marker == kEoi) return {true, scans == 1 && before == kSos};
    if (marker == 0 || marker == kTem || marker == kSoi || IsRestart(marker)) continue;
    if (end - p < 2) return {};
    const std::size_t length = std::size_t{p[0]} << 8 | p[1];
    if (length < 2 || static_cast<std::size_t>(end - p) < length) return {};
    p += length;
    before = marker;
    scans += marker == kSos ? 1 : 0;
  }
}

JpegDecoder::JpegDecoder() : job_(std::make_unique<Job>()) {}
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

JpegDecoder::~JpegDecoder() {
  ImageCounters ignored;
  if (job_ != nullptr) Close(&ignored);
}

std::uint32_t JpegDecoder::height() const { return job_->cinfo.image_height; }
std::uint32_t JpegDecoder::width() const { return job_->cinfo.image_width; }

FaultClass JpegDecoder::Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                             ImageCounters* counters, std::string* detail) {
  Close(counters);
  Job& job = *job_;
  job = Job{};
  job.options = options;
  job.bytes = bytes;
  job.cinfo.err = jpeg_std_error(&job.errors);
  job.cinfo.client_data = &job;
  job.errors.error_exit = Callbacks<Job>::OnError;
  job.errors.emit_message = Callbacks<Job>::OnMessage;
  const FaultClass fault = Callbacks<Job>::Header(&job);
  if (fault != FaultClass::kNone) *detail = job.text;
  return fault;
}

FaultClass JpegDecoder::Read(const Window& window, Pixels* pixels, View* view,
                             std::string* detail) {
  Job& job = *job_;
  FaultClass fault = Callbacks<Job>::Start(&job, window);
  if (fault == FaultClass::kNone) {
    pixels->Resize(window.h + (job.whole ? 1 : 0), job.wide);  // one for rows below the window
    fault = Callbacks<Job>::Rows(&job, pixels, window);
  }
  if (fault != FaultClass::kNone) {
    *detail = job.text;
    return fault;
  }
  for (std::uint32_t y = 0; y < window.h; ++y) {
    if (job.cmyk) CmykToRgb(pixels->row(y), job.wide, job.cinfo.saw_Adobe_marker != 0);
    if (job.items == 1) Spread(pixels->row(y), job.wide);
  }
  *view = pixels->view().Crop({0, window.x - job.left, window.h, window.w});
  return FaultClass::kNone;
}

void JpegDecoder::Close(ImageCounters* counters) {
  if (!job_->open) return;
  counters->jpeg_warnings += job_->errors.num_warnings > 0 ? 1 : 0;
  counters->truncated += job_->truncated && job_->fault == FaultClass::kNone ? 1 : 0;
  jpeg_destroy_decompress(&job_->cinfo);  // does not fail
  job_->open = false;
}

}  // namespace stoker::image
