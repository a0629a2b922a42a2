// Any bytes as a sidecar: refused, or an index whose every lookup stays inside the shard. The
// checksums are made right, so that a fuzzer gets past them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/base/crc32c.h"
#include "daemon/io/index_sidecar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  io::ShardFile file;
  if (size >= sizeof(io::SidecarHeader)) {
    io::SidecarHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    file.identity = {header.shard_size, header.shard_mtime_ns, header.shard_inode,
                     header.shard_device};
    file.compression = static_cast<io::Compression>(header.compression % 4);
    file.path = bytes.substr(sizeof(header), header.path_bytes);
    header.body_crc = Crc32c(std::as_bytes(std::span(bytes).subspan(sizeof(header))));
    header.header_crc = 0;
    header.header_crc = Crc32c(std::as_bytes(std::span(&header, 1)));
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  std::string why;
  const auto index = io::Sidecar::Decode(bytes, file, &why);
  if (index == nullptr) return 0;
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < index->records(); ++i) {
    const io::Extent extent = index->At(i);
    if (extent.offset < end) std::abort();
    end = extent.offset + extent.length + 16;
  }
  if (end > index->end_offset()) std::abort();
  return 0;
}
