// ExternalShuffle: a shuffle of any number of records in bounded memory.
//
// Each record gets a key drawn from the seed and its number; the order is that of the keys. Records
// are dealt to files by ranges of keys, each small enough to be sorted in memory; one that is not
// is dealt again. So the order depends on the seed and the records alone, not on the memory.
//
// Ownership: its files lie in `folder`, under names that begin with a dot, and go with it.
// Thread-safety: one thread at a time. Memory: `memory_bytes`, or the longest record if that is
// more. Errors: kResourceExhausted with path and errno text; kDataLoss where its own files are
// damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace stoker::cli {

class ExternalShuffle {
 public:
  using Sink = std::function<Status(std::span<const std::byte>)>;

  // `expected_bytes` need not be exact: it decides how many files the records are dealt to first.
  ExternalShuffle(std::string folder, std::uint64_t seed, std::uint64_t memory_bytes,
                  std::uint64_t expected_bytes);
  ~ExternalShuffle();
  ExternalShuffle(const ExternalShuffle&) = delete;
  ExternalShuffle& operator=(const ExternalShuffle&) = delete;

  Status Add(std::span<const std::byte> payload);
  std::uint64_t records() const { return number_; }
  // Hands all records to `sink` in their order. Once.
  Status Drain(const Sink& sink);

 private:
  class Deal;

  Status Emit(const std::string& path, std::uint64_t records, std::uint64_t bytes,
              std::uint64_t first_key, std::uint64_t last_key, const Sink& sink);
  Status DrainDeal(Deal* deal, const Sink& sink);

  const std::string folder_;
  const std::uint64_t seed_;
  const std::uint64_t memory_bytes_;
  std::uint64_t number_ = 0;
  std::uint64_t files_made_ = 0;
  std::vector<std::byte> scratch_;
  std::unique_ptr<Deal> deal_;
};

}  // namespace stoker::cli
