#include "client/src/error.h"

#include <cstdarg>
#include <cstdio>

namespace stoker::client {
namespace {

constexpr std::size_t kTextBytes = 4096;
thread_local char t_text[kTextBytes] = "";

}  // namespace

stoker_code Fail(stoker_code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(t_text, sizeof(t_text), format, arguments);
  va_end(arguments);
  return code;
}

}  // namespace stoker::client

extern "C" const char* stoker_last_error(void) { return stoker::client::t_text; }
