// RecordScanner: the records of one stream of bytes, front to back, in bounded memory.
//
// For building indexes, and for tools that look at every record. Lengths are believed only after
// their checksum; a payload is never given more room than the bytes that arrive.
//
// Ownership: borrows the stream. A record's payload lives until the next call of Next().
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/io/byte_stream.h"

namespace stoker::io {

// Where and how a shard ends before its end.
struct Damage {
  FaultClass fault = FaultClass::kNone;
  std::uint64_t record = 0;
  std::uint64_t offset = 0;  // of the header, in the inflated stream
  std::string detail;
};

class RecordScanner {
 public:
  struct Options {
    bool payloads = true;  // false: pass over them, where the stream can
    bool verify = true;    // payload checksums; needs payloads
    std::uint64_t max_record_bytes = (std::uint64_t{1} << 31) - 1;
    // Total bytes if known: a length that runs past them is found at once.
    std::optional<std::uint64_t> stream_bytes;
  };
  struct Record {
    std::uint64_t number = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint32_t stored_crc = 0;          // masked, of the payload
    FaultClass fault = FaultClass::kNone;  // kPayloadCrcMismatch, kRecordTooLarge
    std::span<const std::byte> payload;    // empty with a fault, or without payloads
  };

  RecordScanner(ByteStream* stream, Options options);

  // The next record; false at the end, after which damage() tells whether it was a clean one.
  bool Next(Record* record);

  const std::optional<Damage>& damage() const { return damage_; }
  std::uint64_t offset() const { return offset_; }  // of the next header
  std::uint64_t records() const { return number_; }

 private:
  bool Stop(FaultClass fault, std::string detail);
  bool StopShort(FaultClass fault, const std::string& detail);
  // Makes at least `bytes` bytes ready at begin_, or as many as there are.
  std::size_t Ensure(std::size_t bytes);
  bool PassOver(std::uint64_t bytes);

  ByteStream* const stream_;
  const Options options_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t last_length_ = 0;
  std::optional<Damage> damage_;
};

}  // namespace stoker::io
