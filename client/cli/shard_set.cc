#include "client/cli/shard_set.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/io/framing.h"

namespace stoker::cli {

std::string ShardPath(const std::string& folder, const std::string& name, std::uint64_t number,
                      std::uint64_t count) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05llu-of-%05llu", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(count));
  return folder + "/" + name + tail;
}

std::string ShardSet::TemporaryPath(std::uint64_t shard) const {
  return options_.folder + "/." + options_.name + "." + std::to_string(shard);
}

bool ShardSet::Full(std::size_t next_bytes) const {
  if (options_.shards == 0) return bytes_ + next_bytes + io::kFramingBytes > options_.shard_bytes;
  // Shard k holds the records from k * R / N on.
  return appended_ >= static_cast<std::uint64_t>(static_cast<unsigned __int128>(shard_) *
                                                 options_.records / options_.shards);
}

Status ShardSet::Append(std::span<const std::byte> payload) {
  if (writer_ && Full(payload.size())) STOKER_TRY(CloseShard());
  if (!writer_) {
    auto writer = io::RecordWriter::Create(TemporaryPath(shard_), options_.compression);
    if (!writer.ok()) return writer.status();
    writer_.emplace(std::move(*writer));
    ++shard_;
    bytes_ = 0;
  }
  bytes_ += payload.size() + io::kFramingBytes;
  ++appended_;
  return writer_->Append(payload);
}

Status ShardSet::CloseShard() {
  STOKER_TRY(writer_->Close());
  writer_.reset();
  return Status();
}

Status ShardSet::Finish() {
  if (writer_) STOKER_TRY(CloseShard());
  for (std::uint64_t i = 0; i < shard_; ++i) {
    const std::string to = ShardPath(options_.folder, options_.name, i, shard_);
    if (std::rename(TemporaryPath(i).c_str(), to.c_str()) != 0) {
      return Status(Code::kResourceExhausted, to + ": " + std::strerror(errno));
    }
  }
  return Status();
}

}  // namespace stoker::cli
