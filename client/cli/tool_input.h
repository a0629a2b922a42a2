// ToolInput: a TFRecord file as the tools open it, whole or damaged.
//
// Errors: kNotFound, kPermissionDenied, kDataLoss with path and errno text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/salvage.h"
#include "daemon/base/status.h"
#include "daemon/io/byte_source.h"
#include "daemon/io/manifest.h"

namespace stoker::cli {

struct ToolInput {
  static Result<ToolInput> Open(const std::string& path);

  std::string path;
  io::FileSource source;
  std::uint64_t size = 0;
  io::Compression compression = io::Compression::kPlain;
  // Why the first bytes are no TFRecord's; it is then taken for a plain one that is damaged there.
  std::optional<std::string> doubt;
};

// "none", "gzip", "zlib", as the command line spells them.
const char* CompressionWord(io::Compression compression);
io::Compression CompressionOf(const std::string& word);

// "PATH: record 3, offset 96: payload-crc-mismatch: what is wrong".
std::string LossText(const std::string& path, const Loss& loss);

// The sum of the files' sizes, 0 for those that cannot be seen.
std::uint64_t TotalBytes(const std::vector<std::string>& paths);

}  // namespace stoker::cli
