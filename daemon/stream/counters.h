// StreamCounters: what a stream has done and met, for status and metrics.
//
// Thread-safety: any thread. Counts are exact; a snapshot may fall between two of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "daemon/pipeline/batch_builder.h"
#include "stoker/v1/control.pb.h"

namespace stoker::stream {

class StreamCounters {
 public:
  void Add(const pipeline::BuildCounters& counted);
  void AddBatch(std::uint32_t rows);
  // A bad record met in delivery order; the last 100 are kept with their place.
  void AddBad(const pipeline::BadRow& bad, const std::string& shard, std::uint64_t epoch);

  void Describe(v1::Counters* out) const;
  void DescribeBad(v1::StreamStatus* out) const;

 private:
  static constexpr std::size_t kKept = 100;

  std::atomic<std::uint64_t> rows_{0};
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> delivered_rows_{0};
  std::atomic<std::uint64_t> replaced_{0};
  std::atomic<std::uint64_t> defaulted_{0};
  std::atomic<std::uint64_t> duplicate_keys_{0};
  std::atomic<std::uint64_t> ambiguous_{0};
  std::atomic<std::uint64_t> image_warnings_{0};
  std::atomic<std::uint64_t> truncated_images_{0};
  std::array<std::atomic<std::uint64_t>, kFaultClasses> bad_{};
  mutable std::mutex mutex_;
  std::deque<v1::BadRecord> last_bad_;
};

}  // namespace stoker::stream
