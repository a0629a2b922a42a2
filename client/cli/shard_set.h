// ShardSet: records written to a set of shards NAME-00000-of-0000N, in the order they come.
//
// Shards are cut by count, where the number of records is known, or by size. They carry their final
// names only after Finish(), for the number of shards is part of them.
//
// Thread-safety: one thread at a time. Errors: kResourceExhausted with path and errno text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/base/status.h"
#include "daemon/io/record_writer.h"

namespace stoker::cli {

// "FOLDER/NAME-00003-of-00012".
std::string ShardPath(const std::string& folder, const std::string& name, std::uint64_t number,
                      std::uint64_t count);

class ShardSet {
 public:
  struct Options {
    std::string folder;
    std::string name;
    io::Compression compression = io::Compression::kPlain;
    std::uint64_t shards = 0;       // 0: by size
    std::uint64_t records = 0;      // in all; for cutting by count
    std::uint64_t shard_bytes = 0;  // of a shard before compression; at least one record each
  };

  explicit ShardSet(Options options) : options_(std::move(options)) {}

  Status Append(std::span<const std::byte> payload);
  // REQUIRES: with `shards`, exactly `records` were appended.
  Status Finish();
  std::uint64_t shards() const { return shard_; }
  std::uint64_t records() const { return appended_; }

 private:
  bool Full(std::size_t next_bytes) const;
  std::string TemporaryPath(std::uint64_t shard) const;
  Status CloseShard();

  const Options options_;
  std::optional<io::RecordWriter> writer_;
  std::uint64_t shard_ = 0;  // the next one
  std::uint64_t appended_ = 0;
  std::uint64_t bytes_ = 0;  // in the open shard
};

}  // namespace stoker::cli
