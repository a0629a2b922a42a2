// Sidecar: a shard's index on disk, version 1. docs/formats/index-sidecar.md is the normative page.
//
// A sidecar is named by a hash of the shard's path and holds the path, so that it can be told from
// another's; it is used only if path, size, mtime, inode, device and compression agree and its
// checksums are right. It is written to a temporary file, synced and renamed, mode 0600.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/io/shard_index.h"

namespace stoker::io {

struct SidecarHeader {
  char magic[8];             // "STOKIDX1"
  std::uint32_t header_crc;  // CRC32C of this header with this field 0
  std::uint32_t body_crc;    // CRC32C of all that follows the header
  std::uint64_t shard_size;
  std::uint64_t shard_mtime_ns;
  std::uint64_t shard_inode;
  std::uint64_t shard_device;
  std::uint32_t compression;  // io::Compression
  std::uint32_t path_bytes;
  std::uint64_t records;
  std::uint64_t longest;
  std::uint64_t crc_hash;
  std::uint64_t end_offset;
  std::uint64_t block_count;  // of 32 bytes: base, slope, bits, width
  std::uint64_t packed_bytes;
  std::uint32_t damage_fault;  // FaultClass, 0: none
  std::uint32_t damage_detail_bytes;
  std::uint64_t damage_record;
  std::uint64_t damage_offset;
};
static_assert(sizeof(SidecarHeader) == 128);
static_assert(offsetof(SidecarHeader, records) == 56);

struct Sidecar {
  static std::string PathFor(const std::string& cache_dir, const std::string& shard_path);
  // nullptr where there is none to use; *note says so where one was there.
  static std::shared_ptr<const ShardIndex> Load(const std::string& cache_dir, const ShardFile& file,
                                                std::string* note);
  static Status Store(const std::string& cache_dir, const ShardFile& file, const ShardIndex& index);

  // The bytes of a sidecar, and back. Decode: nullptr with *why where they are not good.
  static std::string Encode(const ShardFile& file, const ShardIndex& index);
  static std::shared_ptr<const ShardIndex> Decode(const std::string& bytes, const ShardFile& file,
                                                  std::string* why);
};

}  // namespace stoker::io
