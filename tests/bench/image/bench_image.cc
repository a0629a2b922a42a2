// The ladder of an image's cost, one thread, from bare libjpeg to a finished row:
//
//   bench_image [--images N] [--rounds N] [--shrink HxW] FOLDER…
//
// Every rung does the same random windows of the same files in turn, and each file's best round
// counts, so that what else the machine does falls out. --shrink measures copies of that size,
// 4:2:0 at quality 92. docs/development/index.md says where the photos come from.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/image/image_program.h"
#include "tests/unit/image/pictures.h"

namespace {

using namespace stoker;
using namespace stoker::image;

constexpr std::uint32_t kSide = 224;
constexpr std::size_t kRows = 64;  // of the batch that is written into

struct Options {
  std::size_t images = 200;
  int rounds = 7;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::string> folders;
};

// libjpeg alone: the rows of a window, or all rows, to rows that are placed well.
void Bare(const std::string& jpeg, const Window* window, Pixels* pixels) {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  jpeg_start_decompress(&cinfo);
  JDIMENSION end = cinfo.output_height;
  if (window != nullptr) {
    JDIMENSION left = window->x;
    JDIMENSION wide = window->w;
    jpeg_crop_scanline(&cinfo, &left, &wide);
    if (window->y > 0) jpeg_skip_scanlines(&cinfo, window->y);
    end = window->y + window->h;
  }
  const JDIMENSION first = cinfo.output_scanline;
  pixels->Resize(end - first, cinfo.output_width);
  while (cinfo.output_scanline < end) {
    JSAMPROW row = pixels->row(cinfo.output_scanline - first);
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_abort_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
}

std::string Shrunk(const std::string& jpeg, std::uint32_t height, std::uint32_t width) {
  OpSpec resize;
  resize.height = height;
  resize.width = width;
  ImageSpec spec;
  spec.ops = {resize};
  const auto program = *ImageProgram::Compile(spec);
  std::vector<std::uint8_t> pixels(program->row_bytes());
  ImageWorker worker;
  ImageCounters counters;
  std::string detail;
  const auto fault = program->Run(worker, Bytes(jpeg), 0, 0, 0, pixels.data(), &counters, &detail);
  if (fault != FaultClass::kNone) return "";
  return Encode(pixels, height, width, 3, JCS_RGB,
                [](auto* cinfo) { jpeg_set_quality(cinfo, 92, TRUE); });
}

std::vector<std::string> Load(const Options& options) {
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : options.folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const auto extension = entry.path().extension();
      if (extension == ".jpg" || extension == ".jpeg") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  const std::size_t every = std::max<std::size_t>(1, paths.size() / options.images);
  std::vector<std::string> files;
  for (std::size_t i = 0; i < paths.size() && files.size() < options.images; i += every) {
    std::ifstream in(paths[i], std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (options.height > 0) bytes = Shrunk(bytes, options.height, options.width);
    if (Decode(bytes).fault == FaultClass::kNone) files.push_back(std::move(bytes));
  }
  return files;
}

std::shared_ptr<const ImageProgram> Program(bool antialias, bool finish, OutType out,
                                            Layout layout) {
  OpSpec crop;
  crop.type = OpSpec::Type::kRandomResizedCrop;
  crop.height = crop.width = kSide;
  crop.antialias = antialias;
  OpSpec flip;
  flip.type = OpSpec::Type::kFlipHorizontal;
  flip.number = 1;
  OpSpec normalize;
  normalize.type = OpSpec::Type::kNormalize;
  normalize.mean = {0.485f, 0.456f, 0.406f};
  normalize.std = {0.229f, 0.224f, 0.225f};
  ImageSpec spec;
  spec.ops = {crop};
  if (finish) spec.ops = {crop, flip, normalize};
  spec.out = out;
  spec.layout = layout;
  return *ImageProgram::Compile(spec);
}

struct Rung {
  const char* name;
  std::function<void(std::size_t)> run;  // by file
  double total_us = 0;
};

int Run(const Options& options) {
  const std::vector<std::string> files = Load(options);
  if (files.empty()) {
    std::fprintf(stderr, "no JPEGs that decode\n");
    return 1;
  }
  std::vector<Window> windows;
  std::uint64_t pixels_seen = 0;
  std::uint64_t pixels_all = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    Decoder decoder;
    ImageCounters counters;
    std::string detail;
    if (decoder.Open(Bytes(files[i]), {}, &counters, &detail) != FaultClass::kNone) return 1;
    RowRandom random(7, static_cast<std::int64_t>(i), 0, 0);
    windows.push_back(DrawTorchvisionCrop({}, decoder.height(), decoder.width(), &random));
    pixels_seen += std::uint64_t{windows.back().h} * windows.back().w;
    pixels_all += std::uint64_t{decoder.height()} * decoder.width();
  }
  Pixels bare;
  ImageWorker worker;
  Decoder decoder;
  std::vector<float> memory(kRows * kSide * kSide * 3 + 16);
  // As in a slot: rows begin at a cache line.
  float* batch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) / 4;
  ImageCounters counters;
  std::string detail;
  const auto run = [&](const std::shared_ptr<const ImageProgram>& program) {
    return [&, program](std::size_t i) {
      void* out = batch + i % kRows * kSide * kSide * 3;
      if (program->Run(worker, Bytes(files[i]), 7, static_cast<std::int64_t>(i), 0, out, &counters,
                       &detail) != FaultClass::kNone) {
        std::abort();
      }
    };
  };
  const auto planes = Layout::kNchw;
  const auto pixels = Layout::kNhwc;
  std::vector<Rung> rungs = {
      {"bare full decode", [&](std::size_t i) { Bare(files[i], nullptr, &bare); }},
      {"bare region decode", [&](std::size_t i) { Bare(files[i], &windows[i], &bare); }},
      {"our region decode",
       [&](std::size_t i) {
         View view;
         decoder.Open(Bytes(files[i]), {}, &counters, &detail);
         decoder.Read(windows[i], &view, &detail);
       }},
      {"+ resize, no antialias", run(Program(false, false, OutType::kFloat32, pixels))},
      {"+ flip, normalise, NCHW", run(Program(false, true, OutType::kFloat32, planes))},
      {"+ resize, antialias", run(Program(true, false, OutType::kFloat32, pixels))},
      {"+ flip, normalise, NCHW", run(Program(true, true, OutType::kFloat32, planes))},
      {"  the same, NHWC", run(Program(true, true, OutType::kFloat32, pixels))},
      {"  the same, bfloat16", run(Program(true, true, OutType::kBfloat16, planes))},
      {"  the same, float16", run(Program(true, true, OutType::kFloat16, planes))},
      {"  resized to uint8", run(Program(true, false, OutType::kUint8, pixels))},
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<double> best(rungs.size(), 1e12);
    for (int round = 0; round < options.rounds; ++round) {
      for (std::size_t r = 0; r < rungs.size(); ++r) {
        const auto start = std::chrono::steady_clock::now();
        rungs[r].run(i);
        const std::chrono::duration<double, std::micro> spent =
            std::chrono::steady_clock::now() - start;
        best[r] = std::min(best[r], spent.count());
      }
    }
    for (std::size_t r = 0; r < rungs.size(); ++r) rungs[r].total_us += best[r];
  }
  const auto n = static_cast<double>(files.size());
  std::printf("%zu images, windows of %.2f of their area, %s\n", files.size(),
              static_cast<double>(pixels_seen) / static_cast<double>(pixels_all),
              SimdTargets().front());
  for (const Rung& rung : rungs) {
    std::printf("%-26s %8.1f us  x%.3f of bare region\n", rung.name, rung.total_us / n,
                rung.total_us / rungs[1].total_us);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (word == "--images") {
      options.images = static_cast<std::size_t>(std::max(1, number()));
    } else if (word == "--rounds") {
      options.rounds = std::max(1, number());
    } else if (word == "--shrink" && i + 1 < argc) {
      if (std::sscanf(argv[++i], "%ux%u", &options.height, &options.width) != 2) return 2;
    } else {
      options.folders.push_back(word);
    }
  }
  if (options.folders.empty()) {
    std::fprintf(stderr, "usage: bench_image [--images N] [--rounds N] [--shrink HxW] FOLDER...\n");
    return 2;
  }
  return Run(options);
}
