// Hostile and broken images: each a fault of its row, named, within bounded time and memory, and
// without a trace in the rows that follow.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "daemon/image/image_program.h"
#include "tests/support/catch.h"
#include "tests/unit/image/pictures.h"

namespace stoker::image {
namespace {

// The last scan of a progressive JPEG so many times more.
std::string WithScans(const std::string& jpeg, int more) {
  const std::size_t scan = jpeg.rfind("\xff\xda");
  const std::string last = jpeg.substr(scan, jpeg.size() - 2 - scan);
  std::string out = jpeg.substr(0, jpeg.size() - 2);
  for (int i = 0; i < more; ++i) out += last;
  return out + "\xff\xd9";
}

TEST_CASE("1,200 scans are refused by their number, and 400 by their work", "[image]") {
  const std::string jpeg = Encode(Scene(30, 30, 1), 30, 30, 1, JCS_GRAYSCALE, Progressive);
  CHECK(Decode(jpeg).fault == FaultClass::kNone);
  CHECK(Decode(WithScans(jpeg, 400)).fault == FaultClass::kNone);
  const Decoded many = Decode(WithScans(jpeg, 1200));
  CHECK(many.fault == FaultClass::kTooManyScans);
  CHECK(many.detail == "more than 500 scans");
  DecodeOptions small;
  small.max_pixels = 900;  // 32 scans of 900 pixels
  CHECK(Decode(WithScans(jpeg, 20), small).fault == FaultClass::kNone);
  const Decoded work = Decode(WithScans(jpeg, 400), small);
  CHECK(work.fault == FaultClass::kTooManyScans);
  CHECK(work.detail.find("32 times max_pixels") != std::string::npos);
}

TEST_CASE("a file without tables decodes alike after any other", "[image]") {
  // Without its Huffman tables a baseline file takes the standard ones, never those of the file
  // before it.
  const std::string jpeg = Encode(Scene(24, 24, 1), 24, 24, 1, JCS_GRAYSCALE);
  std::string bare = jpeg;
  for (std::size_t at = bare.find("\xff\xc4"); at != std::string::npos;
       at = bare.find("\xff\xc4")) {
    const std::size_t length = static_cast<std::uint8_t>(bare[at + 2]) * std::size_t{256} +
                               static_cast<std::uint8_t>(bare[at + 3]);
    bare.erase(at, 2 + length);
  }
  const std::string other = Encode(Scene(24, 24, 1, 9), 24, 24, 1, JCS_GRAYSCALE,
                                   [](auto* cinfo) { cinfo->optimize_coding = TRUE; });
  Decoder decoder;
  std::vector<std::vector<std::uint8_t>> seen;
  for (const std::string& file : {bare, other, bare}) {
    ImageCounters counters;
    std::string detail;
    View view;
    REQUIRE(decoder.Open(Bytes(file), {}, &counters, &detail) == FaultClass::kNone);
    REQUIRE(decoder.Read({0, 0, 24, 24}, &view, &detail) == FaultClass::kNone);
    seen.emplace_back(view.bytes, view.bytes + 24 * kStep);
  }
  CHECK(seen[0] == seen[2]);
  CHECK(Decode(bare).data == Decode(jpeg).data);
}

TEST_CASE("a good image after a bad one is as without it", "[image]") {
  const std::string good = Encode(Scene(50, 70, 3), 50, 70, 3, JCS_RGB);
  const std::string progressive = Encode(Scene(50, 70, 3), 50, 70, 3, JCS_RGB, Progressive);
  ImageSpec spec;
  OpSpec crop;
  crop.type = OpSpec::Type::kRandomResizedCrop;
  crop.height = crop.width = 16;
  spec.ops = {crop};
  const auto program = *ImageProgram::Compile(spec);
  const auto run = [&](ImageWorker* worker, const std::string& bytes,
                       std::vector<std::uint8_t>* out) {
    out->assign(program->row_bytes(), 0);
    ImageCounters counters;
    std::string detail;
    return program->Run(*worker, Bytes(bytes), 1, 5, 0, out->data(), &counters, &detail);
  };
  std::vector<std::uint8_t> want;
  ImageWorker fresh;
  REQUIRE(run(&fresh, good, &want) == FaultClass::kNone);
  ImageWorker worker;
  std::vector<std::uint8_t> out;
  const std::string bad[] = {"",
                             "GIF89a",
                             good.substr(0, good.size() / 2),
                             progressive.substr(0, progressive.size() / 3) + "\xff\xd9",
                             "\x89PNG\r\n\x1a\n",
                             good.substr(0, 100) + std::string(400, '\xff') + "\xff\xd9"};
  for (const std::string& bytes : bad) {
    (void)run(&worker, bytes, &out);
    REQUIRE(run(&worker, good, &out) == FaultClass::kNone);
    CHECK(out == want);
  }
}

#ifndef __SANITIZE_ADDRESS__  // which reserves more address space than any limit allows

TEST_CASE("an image that memory cannot hold costs its row, and the worker goes on", "[image]") {
  constexpr std::uint32_t kSide = 6000;
  const std::string huge = Encode(std::vector<std::uint8_t>(std::size_t{kSide} * kSide, 90), kSide,
                                  kSide, 1, JCS_GRAYSCALE);
  const std::string small = Flat(10, 20, 30);
  ImageSpec spec;
  OpSpec resize;
  resize.height = resize.width = 8;
  spec.ops = {resize};
  const auto program = *ImageProgram::Compile(spec);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{40} << 20);
    const rlimit most = {limit, limit};
    if (setrlimit(RLIMIT_AS, &most) != 0) _exit(1);
    ImageWorker worker;
    std::vector<std::uint8_t> out(program->row_bytes());
    ImageCounters counters;
    std::string detail;
    if (program->Run(worker, Bytes(huge), 1, 0, 0, out.data(), &counters, &detail) !=
        FaultClass::kImageTooLarge) {
      _exit(2);
    }
    if (detail.find("no memory for an image of 6000 x 6000") == std::string::npos) _exit(3);
    if (program->Run(worker, Bytes(small), 1, 1, 0, out.data(), &counters, &detail) !=
        FaultClass::kNone) {
      _exit(4);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

#endif

}  // namespace
}  // namespace stoker::image
