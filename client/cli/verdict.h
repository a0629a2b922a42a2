// Verdict: who waits for whom, from two looks at a stream: the trainer, the workers or the storage.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/v1/control.pb.h"

namespace stoker::cli {

// What happened between two looks. Shares are 0 to 1.
struct Observed {
  double seconds = 0;
  std::uint32_t workers = 1;
  int lanes = 0;          // that were there at both
  double wait_share = 0;  // of the worst lane: it had no batch to give
  double full_share = 0;  // of the same lane: all its slots were taken
  double cpu_share = 0;   // the daemon's CPU time over what its workers could use
  double rows_per_second = 0;
  double bytes_per_second = 0;
  std::string error;  // of a lane that failed
};

enum class Limit { kNobodyReads, kLaneFailed, kTrainer, kWorkers, kStorage, kNone };

Observed Compare(const v1::StreamStatus& before, const v1::StreamStatus& after, double seconds,
                 double cpu_seconds, std::uint32_t workers);
Limit Judge(const Observed& observed);
// "trainer", as JSON names it.
const char* LimitName(Limit limit);
// One sentence that a person understands, with what to do.
std::string Sentence(const Observed& observed);

}  // namespace stoker::cli
