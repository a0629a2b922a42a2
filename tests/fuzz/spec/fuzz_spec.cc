// Any text as a spec: refused with words, or complete, printable, and compiled to a row program.
#include <cstdint>
#include <cstdlib>

#include "config/spec.h"
#include "daemon/pipeline/row_program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker;
  auto spec = config::ParseSpec({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!spec.ok()) return 0;
  if (!config::FillDefaults(&*spec).ok() || !config::ValidateSpec(*spec).ok()) return 0;
  const auto again = config::ParseSpec(config::SpecText(*spec), "printed");
  if (!again.ok()) std::abort();
  (void)pipeline::RowProgram::Compile(*spec, {1000});
  return 0;
}
