#include "client/cli/jpeg_encoder.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

// After <cstdio>: jpeglib.h uses FILE without including it.
#include <jpeglib.h>

namespace stoker::cli {
namespace {

struct Job {
  jpeg_compress_struct cinfo = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "";
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
};

void OnError(j_common_ptr cinfo) {
  Job* job = static_cast<Job*>(cinfo->client_data);
  cinfo->err->format_message(cinfo, job->text);
  std::longjmp(job->jump, 1);
}

// The one function that setjmp returns into: nothing in it has a destructor.
bool Run(Job* job, const std::uint8_t* rgb, std::uint32_t height, std::uint32_t width) {
  jpeg_compress_struct* cinfo = &job->cinfo;
  if (setjmp(job->jump) != 0) {
    jpeg_destroy_compress(cinfo);
    return false;
  }
  jpeg_create_compress(cinfo);
  cinfo->client_data = job;
  jpeg_mem_dest(cinfo, &job->buffer, &job->bytes);
  cinfo->image_width = width;
  cinfo->image_height = height;
  cinfo->input_components = 3;
  cinfo->in_color_space = JCS_RGB;
  jpeg_set_defaults(cinfo);
  jpeg_set_quality(cinfo, 90, TRUE);
  jpeg_start_compress(cinfo, TRUE);
  while (cinfo->next_scanline < height) {
    auto* row = const_cast<JSAMPROW>(rgb + std::size_t{cinfo->next_scanline} * width * 3);
    jpeg_write_scanlines(cinfo, &row, 1);
  }
  jpeg_finish_compress(cinfo);
  jpeg_destroy_compress(cinfo);
  return true;
}

}  // namespace

Result<std::string> EncodeJpeg(std::span<const std::uint8_t> rgb, std::uint32_t height,
                               std::uint32_t width) {
  if (rgb.size() != std::size_t{height} * width * 3) {
    return Status(Code::kInvalidArgument, "the pixels are not height x width x 3");
  }
  Job job;
  job.cinfo.err = jpeg_std_error(&job.errors);
  job.cinfo.client_data = &job;  // an error may come before the compressor is made
  job.errors.error_exit = OnError;
  const bool done = Run(&job, rgb.data(), height, width);
  std::string out;
  if (done) out.assign(reinterpret_cast<const char*>(job.buffer), job.bytes);
  std::free(job.buffer);
  if (!done) return Status(Code::kInvalidArgument, job.text);
  return out;
}

}  // namespace stoker::cli
