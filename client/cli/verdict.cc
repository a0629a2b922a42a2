#include "client/cli/verdict.h"

#include <algorithm>
#include <cmath>

namespace stoker::cli {
namespace {

// Less than this share of the time is nobody's complaint.
constexpr double kNoticed = 0.05;
// Workers that compute for more than half of their time are the limit rather than what they read.
constexpr double kBusy = 0.5;

std::string Percent(double share) {
  return std::to_string(std::lround(std::clamp(share, 0.0, 1.0) * 100)) + " %";
}

}  // namespace

Observed Compare(const v1::StreamStatus& before, const v1::StreamStatus& after, double seconds,
                 double cpu_seconds, std::uint32_t workers) {
  Observed out;
  out.seconds = seconds;
  out.workers = workers;
  const auto per_second = [seconds](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) / seconds : 0;
  };
  out.rows_per_second = per_second(before.counters().rows(), after.counters().rows());
  out.bytes_per_second = per_second(before.counters().bytes_read(), after.counters().bytes_read());
  out.cpu_share = std::min(1.0, cpu_seconds / (seconds * std::max(1u, workers)));
  for (const auto& lane : after.lane()) {
    if (!lane.error().empty()) out.error = lane.error();
    for (const auto& then : before.lane()) {
      // A rank that attached again has a new lane, whose clocks began anew.
      if (then.rank() != lane.rank() || then.batches_delivered() > lane.batches_delivered()) {
        continue;
      }
      const double wait = lane.consumer_wait_seconds() - then.consumer_wait_seconds();
      const double full = lane.producer_blocked_seconds() - then.producer_blocked_seconds();
      if (out.lanes++ == 0 || wait / seconds > out.wait_share) {
        out.wait_share = std::clamp(wait / seconds, 0.0, 1.0);
        out.full_share = std::clamp(full / seconds, 0.0, 1.0);
      }
    }
  }
  return out;
}

Limit Judge(const Observed& observed) {
  if (!observed.error.empty()) return Limit::kLaneFailed;
  if (observed.lanes == 0) return Limit::kNobodyReads;
  if (observed.wait_share >= kNoticed) {
    return observed.cpu_share >= kBusy ? Limit::kWorkers : Limit::kStorage;
  }
  return observed.full_share >= kNoticed ? Limit::kTrainer : Limit::kNone;
}

const char* LimitName(Limit limit) {
  switch (limit) {
    case Limit::kNobodyReads:
      return "nobody-reads";
    case Limit::kLaneFailed:
      return "failed";
    case Limit::kTrainer:
      return "trainer";
    case Limit::kWorkers:
      return "workers";
    case Limit::kStorage:
      return "storage";
    case Limit::kNone:
      break;
  }
  return "none";
}

std::string Sentence(const Observed& observed) {
  const std::string wait = Percent(observed.wait_share);
  const std::string cpu = Percent(observed.cpu_share);
  switch (Judge(observed)) {
    case Limit::kNobodyReads:
      return "nobody reads the stream: attach a trainer, then ask again";
    case Limit::kLaneFailed:
      return "the stream failed: " + observed.error;
    case Limit::kTrainer:
      return "the trainer is the limit: all slots were taken for " + Percent(observed.full_share) +
             " of the time and no batch was missing; nothing to do here";
    case Limit::kWorkers:
      return "the workers are the limit: the trainer waited for " + wait + " of the time while " +
             std::to_string(observed.workers) + " workers used " + cpu +
             " of their CPUs; more workers or cheaper ops help";
    case Limit::kStorage:
      return "the storage is the limit: the trainer waited for " + wait +
             " of the time while the workers used only " + cpu +
             " of their CPUs; faster disks or a warm cache help";
    case Limit::kNone:
      break;
  }
  return "nobody waits for long: trainer, workers and storage keep step";
}

}  // namespace stoker::cli
