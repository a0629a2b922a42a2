#define CATCH_CONFIG_RUNNER
#include <cstdio>

#include "tests/support/catch.h"
#include "tests/support/test_data.h"

int main(int argc, char** argv) {
#ifdef STOKER_NEEDS_DATA
  if (!std::filesystem::exists(stoker::test::DataDir()) ||
      !std::filesystem::exists(stoker::test::GoldenDir())) {
    std::printf("skipped: no test data at %s (set STOKER_TEST_DATA)\n",
                stoker::test::DataDir().c_str());
    return 77;
  }
#endif
  return Catch::Session().run(argc, argv);
}
