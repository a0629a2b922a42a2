// Salvager: the good records of one file, and what is lost between them.
//
// Unlike a reader, which ends at structural damage, it searches a plain file on for the next place
// where a header's and a payload's checksum are both right. A record whose header checksum alone is
// damaged is a good one. A compressed file ends where its coding breaks.
//
// Ownership: borrows the source. A payload lives until the next call of Next().
// Thread-safety: one thread at a time. Blocking: reads the source. Memory: the longest record.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/crc32c.h"
#include "daemon/base/fault.h"
#include "daemon/io/byte_source.h"
#include "daemon/io/record_scanner.h"

namespace stoker::cli {

inline constexpr std::uint64_t kMaxRecordBytes = (std::uint64_t{1} << 31) - 1;

// CRC32C of bytes that come in pieces, each below 2 GiB.
class RunningCrc {
 public:
  void Update(std::span<const std::byte> bytes) {
    // ISA-L takes a non-const pointer and does not write.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc_ = crc32_iscsi(data, static_cast<int>(bytes.size()), crc_);
  }
  std::uint32_t masked() const { return MaskCrc(~crc_); }

 private:
  std::uint32_t crc_ = 0xffffffffu;
};

// One damaged place. `offset` is of the record's header, in the inflated stream.
struct Loss {
  std::uint64_t record = 0;  // good and damaged ones before it
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // passed over because of it, where that is known
  FaultClass fault = FaultClass::kNone;
  std::string detail;
  bool recovered = false;  // its record is good all the same
};

class Salvager {
 public:
  // Begins at `from`, which is record `number`. `before` is the header of the record before it:
  // where that record is damaged too, its length may be what led astray.
  Salvager(const io::ByteSource& source, std::uint64_t size, io::Compression compression,
           std::uint64_t from = 0, std::uint64_t number = 0,
           std::optional<std::uint64_t> before = std::nullopt);

  // The next good record; false at the end. Appends what was lost on the way.
  bool Next(std::span<const std::byte>* payload, std::vector<Loss>* losses);

  std::uint64_t offset() const { return at_; }

 private:
  bool NextPlain(std::span<const std::byte>* payload, std::vector<Loss>* losses);
  bool NextInflated(std::span<const std::byte>* payload, std::vector<Loss>* losses);
  // `bytes` bytes at `offset`, or fewer at the end or after a read error.
  std::span<const std::byte> Peek(std::uint64_t offset, std::uint64_t bytes);
  bool PayloadGood(std::uint64_t offset, std::uint64_t length);
  std::uint64_t Search(std::uint64_t from);

  const io::ByteSource& source_;
  const std::uint64_t size_;
  std::unique_ptr<io::ByteStream> stream_;  // compressed files
  std::unique_ptr<io::RecordScanner> scanner_;
  bool ended_ = false;  // of the inflated stream
  std::uint64_t at_;
  std::uint64_t number_;
  std::optional<std::uint64_t> damaged_before_;
  std::string read_error_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::size_t buffered_ = 0;
};

}  // namespace stoker::cli
