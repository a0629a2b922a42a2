// The digest of delivered rows, as docs/reference/semantics.md defines it: SHA-256 over rows in
// delivered order, each its row id (int64 little-endian), then the SHA-256 of its tensors' real
// bytes in spec order. A tensor of variable length adds its count as u64 little-endian before its
// values; padding is left out. Byte strings add each string's length as u64 before its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/batch_reader.h"
#include "daemon/base/sha256.h"

namespace stoker::cli {

class EpochDigest {
 public:
  void Add(const BatchTensors& tensors, std::uint32_t row);
  std::string Finish() { return Sha256::Hex(rows_.Finish()); }

 private:
  Sha256 rows_;
  Sha256 row_;
};

}  // namespace stoker::cli
