#include "daemon/io/manifest.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "daemon/base/fault.h"
#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

bool HasWildcard(const std::string& pattern) {
  return pattern.find_first_of("*?[\\") != std::string::npos;
}

std::string Folder(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// "name-00003-of-00012.tfrecord": its parts.
struct Numbered {
  std::string prefix;
  unsigned long number;
  unsigned long count;
  std::string suffix;  // empty, or from a dot on
};

bool AllDigits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool ParseNumbered(const std::string& path, Numbered* out) {
  const auto of = path.rfind("-of-");
  if (of == std::string::npos || of < 6) return false;
  const auto dash = path.rfind('-', of - 1);
  if (dash == std::string::npos) return false;
  const std::string number = path.substr(dash + 1, of - dash - 1);
  const auto dot = std::min(path.find('.', of + 4), path.size());
  const std::string count = path.substr(of + 4, dot - of - 4);
  if (!AllDigits(number) || !AllDigits(count) || count.size() > 9 || number.size() > 9)
    return false;
  *out = {path.substr(0, dash), std::stoul(number), std::stoul(count), path.substr(dot)};
  return true;
}

std::string ShardName(const std::string& prefix, unsigned long number, unsigned long count) {
  char tail[48];
  std::snprintf(tail, sizeof(tail), "-%05lu-of-%05lu", number, count);
  return prefix + tail;
}

// A pattern that asks for a whole set, such as name-?????-of-00012 or name-*-of-*.
bool AsksForSet(const std::string& pattern) {
  const auto of = pattern.rfind("-of-");
  if (of == std::string::npos) return false;
  return (of >= 6 && pattern.compare(of - 6, 6, "-?????") == 0) ||
         (of >= 2 && pattern.compare(of - 2, 2, "-*") == 0);
}

Status CheckWholeSets(const std::string& pattern, const std::vector<std::string>& paths) {
  std::map<std::tuple<std::string, unsigned long, std::string>, std::set<unsigned long>> sets;
  for (const auto& path : paths) {
    Numbered numbered;
    if (ParseNumbered(path, &numbered)) {
      sets[{numbered.prefix, numbered.count, numbered.suffix}].insert(numbered.number);
    }
  }
  for (const auto& [key, numbers] : sets) {
    const auto& [prefix, count, suffix] = key;
    for (unsigned long i = 0; i < count; ++i) {
      if (numbers.contains(i)) continue;
      return Status(Code::kNotFound, "source.files: \"" + pattern + "\": the shard " +
                                         ShardName(prefix, i, count) + suffix + " is missing");
    }
  }
  return Status();
}

bool Exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

bool IsFolder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// `name@12`, where no file has that very name.
bool ExpandAt(const std::string& pattern, std::vector<std::string>* out) {
  const auto at = pattern.rfind('@');
  if (at == std::string::npos || at == 0 || Exists(pattern)) return false;
  const std::string count = pattern.substr(at + 1);
  if (!AllDigits(count) || count.size() > 6) return false;
  const unsigned long n = std::stoul(count);
  for (unsigned long i = 0; i < n; ++i) out->push_back(ShardName(pattern.substr(0, at), i, n));
  return n > 0;
}

// Whether a wildcard of `pattern` stands for a name, of a file or a folder on the way to it, that
// begins with `.` or `_`. What the pattern itself spells out is not hidden.
bool IsHidden(const std::string& pattern, const std::string& path) {
  std::size_t p = 0;
  std::size_t q = 0;
  while (p < pattern.size() && q < path.size()) {
    const auto p_end = std::min(pattern.find('/', p), pattern.size());
    const auto q_end = std::min(path.find('/', q), path.size());
    const char asked = pattern[p] == '\\' && p + 1 < p_end ? pattern[p + 1] : pattern[p];
    if (q < q_end && (path[q] == '.' || path[q] == '_') && asked != path[q]) return true;
    p = p_end + 1;
    q = q_end + 1;
  }
  return false;
}

Status NoMatch(const std::string& pattern) {
  const std::string folder = Folder(pattern);
  const shm::Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() && errno == EACCES) {
    return Status(Code::kPermissionDenied,
                  "source.files: \"" + pattern + "\": the folder " + folder +
                      " cannot be read: " + std::strerror(EACCES) + " (the daemon runs as uid " +
                      std::to_string(geteuid()) + ", gid " + std::to_string(getegid()) + ")");
  }
  return Status(Code::kNotFound, "source.files: \"" + pattern + "\" matches no file in " + folder);
}

Status ExpandGlob(const std::string& pattern, std::vector<std::string>* out,
                  std::uint64_t* hidden) {
  glob_t found = {};
  // GLOB_PERIOD: hidden names are matched so that they can be counted.
  const int result = glob(pattern.c_str(), GLOB_PERIOD | GLOB_NOSORT, nullptr, &found);
  if (result != 0 && result != GLOB_NOMATCH) {
    globfree(&found);
    return Status(Code::kInvalidArgument, "source.files: \"" + pattern + "\": the folder " +
                                              Folder(pattern) + " cannot be read");
  }
  std::vector<std::string> matched;
  for (std::size_t i = 0; i < found.gl_pathc; ++i) {
    const std::string path = found.gl_pathv[i];
    const std::string name = BaseName(path);
    if (name == "." || name == ".." || IsFolder(path)) continue;
    if (IsHidden(pattern, path)) {
      ++*hidden;
      continue;
    }
    matched.push_back(path);
  }
  globfree(&found);
  if (matched.empty()) return NoMatch(pattern);
  if (AsksForSet(pattern)) STOKER_TRY(CheckWholeSets(pattern, matched));
  out->insert(out->end(), matched.begin(), matched.end());
  return Status();
}

// The innermost root that `path` lies under by its text, or "".
std::string RootOf(const std::string& path, const std::vector<std::string>& roots) {
  std::string best;
  for (std::string root : roots) {
    while (root.size() > 1 && root.back() == '/') root.pop_back();
    const std::string folder = root == "/" ? root : root + "/";
    if (!root.empty() && path.size() > folder.size() && path.starts_with(folder) &&
        root.size() > best.size()) {
      best = root;
    }
  }
  return best;
}

void HashBytes(const std::string& text, std::uint64_t* hash) {
  for (const char c : text) *hash = (*hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

}  // namespace

const char* CompressionName(Compression compression) {
  static constexpr std::array<const char*, 4> kNames = {"AUTO", "PLAIN", "GZIP", "ZLIB"};
  return kNames[static_cast<std::size_t>(compression)];
}

std::uint64_t Manifest::PathsHash() const {
  std::size_t common = shards.empty() ? 0 : Folder(shards[0].path).size();
  for (const auto& shard : shards) {
    std::size_t same = 0;
    while (same < common && same < shard.path.size() && shard.path[same] == shards[0].path[same]) {
      ++same;
    }
    common = same;
  }
  // Back to a folder's end: "train-0" of two shards is not a folder.
  while (common > 0 && shards[0].path[common] != '/') --common;
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const auto& shard : shards) {
    HashBytes(shard.path.substr(common) + '\n' + std::to_string(shard.identity.size) + '\n', &hash);
  }
  return hash == 0 ? 1 : hash;
}

Compression Sniff(std::span<const std::byte> first, std::uint64_t size) {
  if (first.size() >= kHeaderBytes && ParseHeader(first.data()).crc_good)
    return Compression::kPlain;
  if (first.size() >= 2) {
    const auto a = static_cast<unsigned>(first[0]);
    const auto b = static_cast<unsigned>(first[1]);
    if (a == 0x1f && b == 0x8b) return Compression::kGzip;
    if ((a & 0x0f) == 8 && (a >> 4) <= 7 && (a * 256 + b) % 31 == 0) return Compression::kZlib;
  }
  return size < kHeaderBytes ? Compression::kPlain : Compression::kAuto;
}

Result<Compression> Resolve(const ByteSource& source, std::uint64_t size, Compression asked,
                            const std::string& path) {
  std::array<std::byte, kHeaderBytes> first;
  auto n = source.ReadAt(0, first);
  if (!n.ok()) return Status(n.status()).Annotate(path);
  const Compression seen = Sniff(std::span(first).first(*n), size);
  const auto fault = [&path](FaultClass fault_class, const std::string& what) {
    return Status(Code::kDataLoss, path + ": record 0, offset 0: " +
                                       std::string(FaultName(fault_class)) + ": " + what);
  };
  if (asked == Compression::kAuto && seen != Compression::kAuto) return seen;
  if (asked == Compression::kAuto || (asked == Compression::kPlain && seen == Compression::kAuto)) {
    return fault(FaultClass::kNotATfRecord,
                 "the first 12 bytes are neither a record header nor gzip nor zlib");
  }
  if (asked == seen || size == 0) return asked;
  return fault(FaultClass::kCompressionMismatch,
               std::string("compression is ") + CompressionName(asked) + ", the bytes are " +
                   (seen == Compression::kAuto ? "neither gzip, zlib nor a TFRecord"
                                               : CompressionName(seen)) +
                   "; set compression: AUTO");
}

Result<Manifest> BuildManifest(const ManifestOptions& options) {
  Manifest manifest;
  std::vector<std::string> paths;
  for (const auto& pattern : options.files) {
    if (options.roots_required && (RootOf(pattern, options.data_roots).empty() ||
                                   pattern.find("/../") != std::string::npos)) {
      return Status(Code::kPermissionDenied,
                    "source.files: \"" + pattern + "\" lies under no data_root of the daemon");
    }
    if (ExpandAt(pattern, &paths)) continue;
    if (HasWildcard(pattern) && !Exists(pattern)) {
      STOKER_TRY(ExpandGlob(pattern, &paths, &manifest.hidden_skipped));
    } else {
      paths.push_back(pattern);
    }
  }
  std::sort(paths.begin(), paths.end());
  const auto repeated = std::unique(paths.begin(), paths.end());
  if (repeated != paths.end()) {
    manifest.notes.push_back(std::to_string(paths.end() - repeated) +
                             " paths were named twice and are read once");
    paths.erase(repeated, paths.end());
  }
  if (manifest.hidden_skipped > 0) {
    manifest.notes.push_back(std::to_string(manifest.hidden_skipped) +
                             " names that begin with . or _ were skipped");
  }
  for (const auto& path : paths) {
    ShardFile shard;
    shard.path = path;
    if (options.roots_required) shard.root = RootOf(path, options.data_roots);
    auto source = FileSource::Open(path, shard.root);
    if (!source.ok()) return source.status();
    auto identity = source->Identity();
    if (!identity.ok()) return Status(identity.status()).Annotate(path);
    shard.identity = *identity;
    auto compression = Resolve(*source, shard.identity.size, options.compression, path);
    if (!compression.ok()) return compression.status();
    shard.compression = *compression;
    if (shard.identity.size == 0) {
      ++manifest.empty_shards;
      manifest.notes.push_back(path + ": is empty");
    }
    manifest.shards.push_back(std::move(shard));
  }
  return manifest;
}

Result<Manifest> ReopenManifest(const std::vector<FrozenShard>& frozen,
                                const ManifestOptions& options) {
  Manifest manifest;
  for (const FrozenShard& was : frozen) {
    ShardFile shard;
    shard.path = was.path;
    shard.compression = was.compression;
    if (options.roots_required) {
      shard.root = RootOf(was.path, options.data_roots);
      if (shard.root.empty()) {
        return Status(Code::kPermissionDenied,
                      was.path + ": lies under no data_root of the daemon");
      }
    }
    auto source = FileSource::Open(was.path, shard.root);
    if (!source.ok()) return source.status();
    auto identity = source->Identity();
    if (!identity.ok()) return Status(identity.status()).Annotate(was.path);
    if (identity->size < was.size) {
      return Status(Code::kDataLoss, was.path + ": shard-changed: it had " +
                                         std::to_string(was.size) + " bytes and has " +
                                         std::to_string(identity->size));
    }
    shard.identity = *identity;
    shard.identity.size = was.size;
    if (was.size == 0) ++manifest.empty_shards;
    manifest.shards.push_back(std::move(shard));
  }
  return manifest;
}

}  // namespace stoker::io
