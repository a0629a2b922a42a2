#include "daemon/io/index_sidecar.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/base/crc32c.h"

namespace stoker::io {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'O', 'K', 'I', 'D', 'X', '1'};
constexpr std::uint64_t kPadding = 8;
constexpr std::uint64_t kWidest = 57;

std::uint32_t Crc(const char* bytes, std::size_t n) {
  return Crc32c(std::as_bytes(std::span(bytes, n)));
}

std::string ErrnoText(const std::string& what) { return what + ": " + std::strerror(errno); }

// Reads a whole file, or answers false with errno.
bool ReadFile(const std::string& path, std::string* out) {
  const shm::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return false;
  char buffer[1 << 16];
  ssize_t n = 0;
  while ((n = read(fd.get(), buffer, sizeof(buffer))) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    out->append(buffer, static_cast<std::size_t>(n));
  }
  return true;
}

bool WriteAll(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::string Sidecar::PathFor(const std::string& cache_dir, const std::string& shard_path) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : shard_path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  char name[32];
  std::snprintf(name, sizeof(name), "/%016llx.sidx", static_cast<unsigned long long>(hash));
  return cache_dir + name;
}

std::string Sidecar::Encode(const ShardFile& file, const ShardIndex& index) {
  SidecarHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.shard_size = file.identity.size;
  header.shard_mtime_ns = file.identity.mtime_ns;
  header.shard_inode = file.identity.inode;
  header.shard_device = file.identity.device;
  header.compression = static_cast<std::uint32_t>(file.compression);
  header.path_bytes = static_cast<std::uint32_t>(file.path.size());
  header.records = index.records_;
  header.longest = index.longest_;
  header.crc_hash = index.crc_hash_;
  header.end_offset = index.end_offset_;
  header.block_count = index.blocks_.size();
  header.packed_bytes = index.bits_.size();
  std::string detail;
  if (index.damage_) {
    header.damage_fault = static_cast<std::uint32_t>(index.damage_->fault);
    header.damage_record = index.damage_->record;
    header.damage_offset = index.damage_->offset;
    detail = index.damage_->detail;
    header.damage_detail_bytes = static_cast<std::uint32_t>(detail.size());
  }
  std::string body = file.path + detail;
  body.append(reinterpret_cast<const char*>(index.blocks_.data()),
              index.blocks_.size() * sizeof(ShardIndex::Block));
  body.append(reinterpret_cast<const char*>(index.bits_.data()), index.bits_.size());
  header.body_crc = Crc(body.data(), body.size());
  header.header_crc = Crc(reinterpret_cast<const char*>(&header), sizeof(header));
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + body;
}

std::shared_ptr<const ShardIndex> Sidecar::Decode(const std::string& bytes, const ShardFile& file,
                                                  std::string* why) {
  SidecarHeader header;
  *why = "it is damaged";
  if (bytes.size() < sizeof(header)) return nullptr;
  std::memcpy(&header, bytes.data(), sizeof(header));
  SidecarHeader unsigned_header = header;
  unsigned_header.header_crc = 0;
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      Crc(reinterpret_cast<const char*>(&unsigned_header), sizeof(header)) != header.header_crc) {
    return nullptr;
  }
  const std::string body = bytes.substr(sizeof(header));
  if (header.block_count > body.size() / sizeof(ShardIndex::Block) ||
      header.packed_bytes > body.size() ||
      std::uint64_t{header.path_bytes} + header.damage_detail_bytes +
              header.block_count * sizeof(ShardIndex::Block) + header.packed_bytes !=
          body.size() ||
      Crc(body.data(), body.size()) != header.body_crc) {
    return nullptr;
  }
  *why = "the shard has changed since";
  const FileIdentity identity{header.shard_size, header.shard_mtime_ns, header.shard_inode,
                              header.shard_device};
  if (identity != file.identity || body.compare(0, header.path_bytes, file.path) != 0 ||
      header.compression != static_cast<std::uint32_t>(file.compression)) {
    return nullptr;
  }
  *why = "it is damaged";
  const auto index = std::make_shared<ShardIndex>();
  index->records_ = header.records;
  index->longest_ = header.longest;
  index->crc_hash_ = header.crc_hash;
  index->end_offset_ = header.end_offset;
  const char* at = body.data() + header.path_bytes;
  if (header.damage_fault >= kFaultClasses) return nullptr;
  if (header.damage_fault != 0) {
    index->damage_ = Damage{static_cast<FaultClass>(header.damage_fault), header.damage_record,
                            header.damage_offset, std::string(at, header.damage_detail_bytes)};
  }
  at += header.damage_detail_bytes;
  index->blocks_.resize(header.block_count);
  if (header.block_count > 0) {
    std::memcpy(index->blocks_.data(), at, header.block_count * sizeof(ShardIndex::Block));
  }
  at += header.block_count * sizeof(ShardIndex::Block);
  index->bits_.assign(at, at + header.packed_bytes);
  // A right checksum is no promise about who wrote it: no lookup may leave the arrays.
  const std::uint64_t blocks = header.records / ShardIndex::kBlockRecords +
                               (header.records % ShardIndex::kBlockRecords != 0 ? 1 : 0);
  if (blocks != header.block_count || header.packed_bytes < kPadding) return nullptr;
  for (std::uint64_t i = 0; i < header.block_count; ++i) {
    const auto& block = index->blocks_[i];
    const std::uint64_t count = std::min<std::uint64_t>(
        ShardIndex::kBlockRecords, header.records - i * ShardIndex::kBlockRecords);
    const std::uint64_t room = (header.packed_bytes - kPadding) * 8;
    if (block.width > kWidest || block.bits > room || block.width * count > room - block.bits) {
      return nullptr;
    }
  }
  // Lengths are differences of offsets, so these must rise by at least a record's framing.
  if (file.compression == Compression::kPlain && header.end_offset > file.identity.size) {
    return nullptr;
  }
  std::uint64_t before = 0;
  std::uint64_t longest = 0;
  for (std::uint64_t i = 0; i <= index->records_; ++i) {
    const std::uint64_t offset = index->Offset(i);
    if (offset > header.end_offset || (i > 0 && offset < before + 16)) return nullptr;
    if (i > 0) longest = std::max(longest, offset - before - 16);
    before = offset;
  }
  if (longest != header.longest) return nullptr;
  return index;
}

std::shared_ptr<const ShardIndex> Sidecar::Load(const std::string& cache_dir, const ShardFile& file,
                                                std::string* note) {
  const std::string path = PathFor(cache_dir, file.path);
  std::string bytes;
  if (!ReadFile(path, &bytes)) return nullptr;
  std::string why;
  auto index = Decode(bytes, file, &why);
  if (index == nullptr) *note = file.path + ": its stored index is built anew: " + why;
  return index;
}

Status Sidecar::Store(const std::string& cache_dir, const ShardFile& file,
                      const ShardIndex& index) {
  const std::string path = PathFor(cache_dir, file.path);
  std::string temporary = path + ".XXXXXX";
  shm::Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return Status(Code::kPermissionDenied, ErrnoText(cache_dir));
  const bool written = WriteAll(fd.get(), Encode(file, index)) && fsync(fd.get()) == 0 &&
                       rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return Status();
  Status status(Code::kResourceExhausted, ErrnoText(path));
  unlink(temporary.c_str());
  return status;
}

}  // namespace stoker::io
