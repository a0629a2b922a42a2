#include "client/cli/tool_input.h"

#include <sys/stat.h>

namespace stoker::cli {

Result<ToolInput> ToolInput::Open(const std::string& path) {
  auto source = io::FileSource::Open(path, "");
  if (!source.ok()) return source.status();
  auto identity = source->Identity();
  if (!identity.ok()) return Status(identity.status()).Annotate(path);
  ToolInput input{path, std::move(*source), identity->size, io::Compression::kPlain, std::nullopt};
  auto compression = io::Resolve(input.source, input.size, io::Compression::kAuto, path);
  if (compression.ok()) {
    input.compression = *compression;
  } else {
    input.doubt = compression.status().message();
  }
  return input;
}

const char* CompressionWord(io::Compression compression) {
  return compression == io::Compression::kGzip   ? "gzip"
         : compression == io::Compression::kZlib ? "zlib"
                                                 : "none";
}

io::Compression CompressionOf(const std::string& word) {
  return word == "gzip"   ? io::Compression::kGzip
         : word == "zlib" ? io::Compression::kZlib
                          : io::Compression::kPlain;
}

std::string LossText(const std::string& path, const Loss& loss) {
  return path + ": record " + std::to_string(loss.record) + ", offset " +
         std::to_string(loss.offset) + ": " + std::string(FaultName(loss.fault)) +
         (loss.detail.empty() ? "" : ": " + loss.detail);
}

std::uint64_t TotalBytes(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const auto& path : paths) {
    struct stat status;
    if (stat(path.c_str(), &status) == 0) total += static_cast<std::uint64_t>(status.st_size);
  }
  return total;
}

}  // namespace stoker::cli
