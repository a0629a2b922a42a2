// Any bytes as a JPEG: bounded, and one answer for every window.
#include "tests/fuzz/fuzz_decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker::image;
  DecodeOptions options;
  TryDecoder(data, size, options);
  options.tolerant = true;
  options.orient = true;
  TryDecoder(data, size, options);
  TryProgram(data, size);
  return 0;
}
