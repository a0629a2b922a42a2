// Hooks that only test builds carry (STOKER_TEST_HOOKS). A packaged build compiles them away.
#pragma once

#include <cstdint>

namespace stoker {

#ifdef STOKER_TEST_HOOKS
// Waits 0 to $STOKER_TEST_RUN_DELAY_US microseconds, by a hash of `run`, so that runs finish in an
// order that has nothing to do with their numbers. Without the variable it returns at once.
void DelayRun(std::uint64_t run);
#else
inline void DelayRun(std::uint64_t) {}
#endif

}  // namespace stoker
