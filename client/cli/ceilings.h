// Ceilings: what this machine does without Stoker, measured beside what it does with it.
//
// Each is the best of a few short runs on one core, for the best run is the one that others
// disturbed least.
//
// Thread-safety: plain functions. FutexRoundTrip() forks; the child calls nothing but the kernel.
// Blocking: about a second in all. Memory: up to 256 MiB, given back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/example/example_parser.h"

namespace stoker::cli {

struct ParseRate {
  double records_per_second = 0;
  double bytes_per_second = 0;
};

double MemcpyRate();   // bytes copied a second, beyond the caches
double ColdCrcRate();  // bytes a second, from memory
double HotCrcRate();   // bytes a second, from the first-level cache

// Seconds from one process to another and back, both asleep on a futex in shared memory.
double FutexRoundTrip();

// Bytes a second that pread() returns of files in the page cache, up to 512 MiB of them.
Result<double> PreadRate(const std::vector<std::string>& paths);

// The requested features of the first records found and their numbers copied, nothing else.
Result<ParseRate> ParseLoopRate(const std::vector<std::string>& paths,
                                const example::FeaturePlan& plan);

}  // namespace stoker::cli
