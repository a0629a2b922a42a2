#include "daemon/image/png.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace stoker::image {

// Everything that a decode needs, without C++ objects on the frames that longjmp passes.
struct PngDecoder::Job {
  png_structp png;
  png_infop info;
  DecodeOptions options;
  std::span<const std::byte> bytes;
  std::size_t at;  // first byte that libpng has not taken
  std::uint32_t height;
  std::uint32_t width;
  std::uint64_t warnings;
  int passes;
  FaultClass fault;
  char text[256];
};

namespace {

// PNG's own channel weights for gray are Rec. 709's; TensorFlow asks for Rec. 601's.
constexpr double kRed = 0.299;
constexpr double kGreen = 0.587;

template <typename Job>
struct PngCallbacks {
  [[noreturn]] static void Fail(Job* job, FaultClass fault) {
    job->fault = fault;
    png_longjmp(job->png, 1);
  }

  [[noreturn]] static void OnError(png_structp png, png_const_charp text) {
    Job* job = static_cast<Job*>(png_get_error_ptr(png));
    std::snprintf(job->text, sizeof(job->text), "%s", text);
    Fail(job, FaultClass::kBadImage);
  }

  static void OnWarning(png_structp png, png_const_charp) {
    ++static_cast<Job*>(png_get_error_ptr(png))->warnings;
  }

  static void OnRead(png_structp png, png_bytep out, std::size_t n) {
    Job* job = static_cast<Job*>(png_get_io_ptr(png));
    if (n > job->bytes.size() - job->at) png_error(png, "the PNG is not complete");
    std::memcpy(out, job->bytes.data() + job->at, n);
    job->at += n;
  }

  // The functions that setjmp returns into: Header, Start and ReadRow and End.
  static FaultClass Header(Job* job) {
    png_structp png = job->png;
    if (setjmp(png_jmpbuf(png)) != 0) return job->fault;
    // Texts and profiles may inflate to any size and change no pixel.
    static const png_byte kPassedOver[] =
        "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0eXIf\0hIST\0pHYs\0oFFs\0pCAL\0sCAL\0tIME\0bKGD\0sBIT";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kPassedOver,
                                static_cast<int>(sizeof(kPassedOver) / 5));
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_read_fn(png, job, OnRead);
    png_read_info(png, job->info);
    job->height = png_get_image_height(png, job->info);
    job->width = png_get_image_width(png, job->info);
    const std::uint64_t pixels = std::uint64_t{job->height} * job->width;
    const std::uint64_t item = job->options.deep ? 2 : 1;
    if (pixels > job->options.max_pixels ||
        pixels * job->options.channels * item > job->options.max_decoded_bytes) {
      std::snprintf(job->text, sizeof(job->text),
                    "%u x %u pixels are over max_pixels %llu or max_decoded_bytes %llu", job->width,
                    job->height, static_cast<unsigned long long>(job->options.max_pixels),
                    static_cast<unsigned long long>(job->options.max_decoded_bytes));
      Fail(job, FaultClass::kImageTooLarge);
    }
    return FaultClass::kNone;
  }

  static FaultClass Start(Job* job) {
    png_structp png = job->png;
    if (setjmp(png_jmpbuf(png)) != 0) return job->fault;
    const int colour = png_get_color_type(png, job->info);
    const bool gray = (colour & PNG_COLOR_MASK_COLOR) == 0;
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (gray && png_get_bit_depth(png, job->info) < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (job->options.deep) {
      png_set_expand_16(png);
      png_set_swap(png);
    } else {
      png_set_strip_16(png);
    }
    png_set_strip_alpha(png);
    if (!gray && job->options.channels == 1) {
      png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, kRed, kGreen);
    }
    // Gray is spread to whole pixels afterwards: libpng does not make colour of what it made gray.
    if (job->options.channels != 1) {
      if (gray) png_set_gray_to_rgb(png);
      png_set_filler(png, 0xffff, PNG_FILLER_AFTER);
    }
    job->passes = png_set_interlace_handling(png);
    png_read_update_info(png, job->info);
    return FaultClass::kNone;
  }

  static FaultClass ReadRow(Job* job, png_bytep row) {
    if (setjmp(png_jmpbuf(job->png)) != 0) return job->fault;
    png_read_row(job->png, row, nullptr);
    return FaultClass::kNone;
  }

  static FaultClass End(Job* job) {
    if (setjmp(png_jmpbuf(job->png)) != 0) return job->fault;
    png_read_end(job->png, nullptr);
    return FaultClass::kNone;
  }
};

}  // namespace

PngDecoder::PngDecoder() : job_(std::make_unique<Job>()) {}
PngDecoder::PngDecoder(PngDecoder&&) noexcept = default;
PngDecoder& PngDecoder::operator=(PngDecoder&&) noexcept = default;

PngDecoder::~PngDecoder() {
  ImageCounters ignored;
  if (job_ != nullptr) Close(&ignored);
}

std::uint32_t PngDecoder::height() const { return job_->height; }
std::uint32_t PngDecoder::width() const { return job_->width; }

FaultClass PngDecoder::Open(std::span<const std::byte> bytes, const DecodeOptions& options,
                            ImageCounters* counters, std::string* detail) {
  Close(counters);
  Job& job = *job_;
  job = Job{};
  job.options = options;
  job.bytes = bytes;
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, PngCallbacks<Job>::OnError,
                                   PngCallbacks<Job>::OnWarning);
  if (job.png != nullptr) job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) {
    *detail = "no memory to decode a PNG";
    return FaultClass::kImageTooLarge;
  }
  const FaultClass fault = PngCallbacks<Job>::Header(&job);
  if (fault != FaultClass::kNone) *detail = job.text;
  return fault;
}

FaultClass PngDecoder::Read(const Window& window, Pixels* pixels, std::vector<float>* deep,
                            View* view, std::string* detail) {
  Job& job = *job_;
  FaultClass fault = PngCallbacks<Job>::Start(&job);
  const bool wide = job.options.deep;
  if (fault == FaultClass::kNone) {
    // libpng wants all rows of an interlaced image at once, and the window's rows stay in order.
    pixels->Resize(job.height, wide ? 2 * job.width : job.width);
  }
  for (int pass = 0; pass < job.passes && fault == FaultClass::kNone; ++pass) {
    for (std::uint32_t y = 0; y < job.height && fault == FaultClass::kNone; ++y) {
      fault = PngCallbacks<Job>::ReadRow(&job, pixels->row(y));
    }
  }
  if (fault == FaultClass::kNone) fault = PngCallbacks<Job>::End(&job);
  if (fault != FaultClass::kNone) {
    *detail = job.text;
    return fault;
  }
  const bool gray = job.options.channels == 1;
  if (!wide) {
    for (std::uint32_t y = 0; gray && y < window.h; ++y) {
      Spread(pixels->row(window.y + y), job.width);
    }
    *view = pixels->view().Crop(window);
    return FaultClass::kNone;
  }
  const std::size_t stride = window.w * kStep;
  const std::size_t items = gray ? 1 : kStep;
  if (deep->size() < stride * window.h + 3 * kStep) deep->resize(stride * window.h + 3 * kStep);
  for (std::uint32_t y = 0; y < window.h; ++y) {
    const std::uint8_t* from = pixels->row(window.y + y) + window.x * items * 2;
    float* to = deep->data() + y * stride;
    for (std::size_t i = 0; i < stride; ++i) {
      std::uint16_t value = 0;
      std::memcpy(&value, from + 2 * (gray ? i / kStep : i), sizeof(value));
      to[i] = value;
    }
  }
  *view = {nullptr, deep->data(), stride, window.h, window.w};
  return FaultClass::kNone;
}

void PngDecoder::Close(ImageCounters* counters) {
  if (job_->png == nullptr) return;
  counters->png_warnings += job_->warnings > 0 ? 1 : 0;
  png_destroy_read_struct(&job_->png, &job_->info, nullptr);
}

}  // namespace stoker::image
