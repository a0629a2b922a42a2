// Any bytes as a TFRecord file, in each compression: the scan, the index and reading by number
// agree with each other, and nothing reads past its end.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "daemon/io/record_reader.h"

namespace {

using namespace stoker;

class Bytes final : public io::ByteSource {
 public:
  Bytes(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const std::byte*>(data),
               reinterpret_cast<const std::byte*>(data) + size) {}
  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t n = std::min<std::size_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, n);
    return n;
  }
  Result<io::FileIdentity> Identity() const override {
    return io::FileIdentity{bytes_.size(), 0, 0, 0};
  }

 private:
  std::vector<std::byte> bytes_;
};

void Require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::uint64_t kMost = 1 << 20;

void CompareWithScan(const Bytes& source, std::size_t size, io::Compression compression,
                     const io::ShardIndex& index, const io::RecordBlock& block) {
  auto stream = io::OpenStream(source, size, compression);
  io::RecordScanner::Options scan;
  scan.max_record_bytes = kMost;
  if (compression == io::Compression::kPlain) scan.stream_bytes = size;
  io::RecordScanner scanner(stream.get(), scan);
  io::RecordScanner::Record record;
  std::size_t n = 0;
  while (scanner.Next(&record)) {
    Require(n < block.records().size());
    const io::Record& read = block.records()[n++];
    Require(read.offset == record.offset);
    Require(read.fault == record.fault);
    Require(read.payload.size() == record.payload.size());
    Require(record.payload.empty() ||
            std::memcmp(read.payload.data(), record.payload.data(), record.payload.size()) == 0);
  }
  Require(n == block.records().size());
  Require(scanner.damage().has_value() == index.damage().has_value());
}

void Try(const std::uint8_t* data, std::size_t size, io::Compression compression) {
  const Bytes source(data, size);
  io::IndexOptions options;
  options.max_record_bytes = kMost;
  const auto index = io::BuildIndex(source, size, compression, "fuzz", options);
  if (!index.ok()) return;

  io::ShardFile file;
  file.identity.size = size;
  file.compression = compression;
  io::SegmentCache cache(1 << 16);
  for (const io::Holding holding :
       {io::Holding::kDirect, io::Holding::kCached, io::Holding::kResident}) {
    if (holding == io::Holding::kDirect && compression != io::Compression::kPlain) continue;
    const auto shard = io::Shard::Over(std::make_unique<Bytes>(data, size), file, *index,
                                       {io::CrcMode::kFull, kMost, holding, &cache});
    Require(shard.ok());
    io::RecordBlock block;
    for (std::uint64_t i = 0; i < (*index)->records(); ++i) (*shard)->Read(i, 1, &block);
    CompareWithScan(source, size, compression, **index, block);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Try(data, size, io::Compression::kPlain);
  Try(data, size, io::Compression::kGzip);
  Try(data, size, io::Compression::kZlib);
  return 0;
}
