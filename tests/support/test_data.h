// Where the shared test data lies. Programs built with DATA have left with 77 before any test
// runs where it is absent, so these need no check.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace stoker::test {

// ../shared/data from the project's root, or $STOKER_TEST_DATA.
inline std::filesystem::path DataDir() {
  if (const char* dir = std::getenv("STOKER_TEST_DATA")) return dir;
  return std::filesystem::path(STOKER_SOURCE_DIR).parent_path() / "shared" / "data";
}

// The golden vectors beside it.
inline std::filesystem::path GoldenDir() { return DataDir().parent_path() / "golden"; }

}  // namespace stoker::test
