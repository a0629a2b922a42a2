// Manifest: the frozen, sorted list of a source's shards.
//
// Patterns are glob(7)'s, `\` escapes, `*` does not cross `/`. `name@N` stands for
// name-00000-of-0000N and its siblings; where a pattern names an `-of-N` set every shard of it
// must be there. Names that begin with `.` or `_` are left out of what a wildcard matches; a path
// given outright is always taken.
//
// Blocking: reads folders and the first bytes of each file. Errors: kNotFound for a pattern that
//   matches nothing (with pattern and folder) or a missing shard; kPermissionDenied with errno
//   text and our user; kDataLoss naming not-a-tfrecord or compression-mismatch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/io/byte_source.h"

namespace stoker::io {

enum class Compression : std::uint8_t { kAuto, kPlain, kGzip, kZlib };
enum class CrcMode : std::uint8_t { kFull, kLength, kOff };

const char* CompressionName(Compression compression);

struct ShardFile {
  std::string path;
  std::string root;  // the data_root it is resolved beneath; empty: none
  FileIdentity identity;
  Compression compression = Compression::kPlain;  // never kAuto
};

struct Manifest {
  std::vector<ShardFile> shards;  // sorted bytewise by path
  std::uint64_t hidden_skipped = 0;
  std::uint64_t empty_shards = 0;
  std::vector<std::string> notes;  // what a person should know, a line each

  // A 64-bit hash of the shards' paths below their longest common folder, with sizes.
  std::uint64_t PathsHash() const;
};

struct ManifestOptions {
  std::vector<std::string> files;
  Compression compression = Compression::kAuto;
  std::vector<std::string> data_roots;
  bool roots_required = false;  // refuse files outside every root
};

Result<Manifest> BuildManifest(const ManifestOptions& options);

// A shard as a manifest named it before.
struct FrozenShard {
  std::string path;
  std::uint64_t size = 0;
  Compression compression = Compression::kPlain;
};

// A manifest that was frozen earlier, as its files are now: of each its first `size` bytes count.
// Patterns are not looked at. kDataLoss naming shard-changed where a file has become shorter.
Result<Manifest> ReopenManifest(const std::vector<FrozenShard>& frozen,
                                const ManifestOptions& options);

// What the first bytes of a file say it is; kAuto where nothing fits. `size` is the file's.
Compression Sniff(std::span<const std::byte> first, std::uint64_t size);

// Sniff() held against what was asked for: the compression to read with, or the error.
Result<Compression> Resolve(const ByteSource& source, std::uint64_t size, Compression asked,
                            const std::string& path);

}  // namespace stoker::io
