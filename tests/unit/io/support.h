// What the tests of this room share: storage that misbehaves on request, and zlib as the writer
// that is not ours.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "daemon/io/byte_source.h"

namespace stoker::io {

// Serves a byte string; flips a bit of the bytes in `lies` on the first reads that cover them.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {
    identity.size = bytes_.size();
  }

  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    if (fails > 0) {
      --fails;
      return Status(Code::kDataLoss, "pread: Input/output error");
    }
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t n = std::min<std::size_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, n);
    for (auto& [at, times] : lies) {
      if (times == 0 || at < offset || at >= offset + n) continue;
      --times;
      out[at - offset] ^= std::byte{1};
    }
    return n;
  }
  Result<FileIdentity> Identity() const override { return identity; }

  mutable std::map<std::uint64_t, int> lies;
  mutable int fails = 0;
  FileIdentity identity;

 private:
  std::string bytes_;
};

inline constexpr int kGzipWindow = 15 + 16;  // zlib's way to ask for gzip framing
inline constexpr int kZlibWindow = 15;

inline std::string Deflate(const std::string& bytes, int window, int level = Z_BEST_SPEED,
                           int strategy = Z_DEFAULT_STRATEGY) {
  z_stream stream = {};
  deflateInit2(&stream, level, Z_DEFLATED, window, 8, strategy);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
inline std::string Gzip(const std::string& bytes) { return Deflate(bytes, kGzipWindow); }
inline std::string Zlib(const std::string& bytes) { return Deflate(bytes, kZlibWindow); }

}  // namespace stoker::io
