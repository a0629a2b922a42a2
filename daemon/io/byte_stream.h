// ByteStream: the bytes of a shard front to back, inflated where it is compressed.
//
// Memory is bounded: one input buffer. GZIP members may be concatenated and records may span
// them. Data cut before its trailer, a wrong checksum and junk after the end are faults; all
// bytes inflated before them are delivered first.
//
// Ownership: borrows the source. Thread-safety: one thread at a time.
#pragma once

#include <isa-l/igzip_lib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/io/byte_source.h"
#include "daemon/io/manifest.h"

namespace stoker::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `out`; fewer bytes only at the end or before a fault.
  virtual std::size_t Read(std::span<std::byte> out) = 0;
  // Passes over `bytes`; returns how many there were.
  virtual std::uint64_t Skip(std::uint64_t bytes) = 0;
  // What ended the stream, once Read() gave less than was asked. kNone: its clean end.
  FaultClass fault() const { return fault_; }
  const std::string& detail() const { return detail_; }

 protected:
  void SetFault(FaultClass fault, std::string detail) {
    fault_ = fault;
    detail_ = std::move(detail);
  }

 private:
  FaultClass fault_ = FaultClass::kNone;
  std::string detail_;
};

// The first `size` bytes of the source: what is appended later does not exist.
std::unique_ptr<ByteStream> OpenStream(const ByteSource& source, std::uint64_t size,
                                       Compression compression);

}  // namespace stoker::io
