#include "daemon/base/test_hooks.h"

#ifdef STOKER_TEST_HOOKS

#include <chrono>
#include <cstdlib>
#include <thread>

namespace stoker {

void DelayRun(std::uint64_t run) {
  static const std::uint64_t most = [] {
    const char* text = std::getenv("STOKER_TEST_RUN_DELAY_US");
    return text == nullptr ? 0ull : std::strtoull(text, nullptr, 10);
  }();
  if (most == 0) return;
  run = (run ^ (run >> 31)) * 0x9e3779b97f4a7c15ull;
  run ^= run >> 29;
  std::this_thread::sleep_for(std::chrono::microseconds(run % (most + 1)));
}

}  // namespace stoker

#endif
