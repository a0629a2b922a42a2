#include "stoker/stoker.hpp"
#include "tests/support/catch.h"

namespace {

TEST_CASE("the C++ header throws what the C ABI says", "[client]") {
  stoker::Options options;
  options.socket_path = "/nonexistent/attach.sock";
  options.stream_name = "none";
  try {
    stoker::Stream stream(options);
    FAIL("it attached");
  } catch (const stoker::Error& error) {
    CHECK(error.code() == STOKER_UNAVAILABLE);
    CHECK(std::string(error.what()).find("/nonexistent/attach.sock") != std::string::npos);
  }
}

}  // namespace
