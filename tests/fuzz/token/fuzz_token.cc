// Whatever text a trainer sends as a token is refused with a reason, or is exactly what the
// encoder writes for the token that it decodes to.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/plan/token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto token = stoker::plan::DecodeToken(text);
  if (token.ok()) {
    if (stoker::plan::EncodeToken(*token) != text) std::abort();
  } else if (token.status().message().empty()) {
    std::abort();
  }
  return 0;
}
