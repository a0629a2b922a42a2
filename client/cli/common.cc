#include "client/cli/common.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/daemon_config.h"
#include "config/spec.h"

namespace stoker::cli {

int Fail(const std::string& text) {
  std::fprintf(stderr, "stoker: %s\n", text.c_str());
  return kFailed;
}

std::string RuntimeDir(const Globals& globals) {
  if (!globals.runtime_dir.empty()) return globals.runtime_dir;
  const auto has_socket = [](const std::string& dir) {
    return std::filesystem::exists(dir + "/control.sock");
  };
  if (has_socket("/run/stoker")) return "/run/stoker";
  return config::DefaultRuntimeDir();
}

Result<v1::StreamSpec> LoadSpec(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::kNotFound, path + ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto spec = config::ParseSpec(text, path);
  if (!spec.ok()) return spec;
  const auto folder = std::filesystem::absolute(path).parent_path();
  for (auto& source : *spec->mutable_source()) {
    for (auto& file : *source.mutable_files()) {
      if (!file.empty() && file[0] != '/') file = AbsolutePath((folder / file).string());
    }
  }
  return spec;
}

std::string AbsolutePath(const std::string& path) {
  // `..` stays: behind a link it leads where the file system says.
  std::filesystem::path out;
  for (const auto& part : std::filesystem::absolute(path)) {
    if (part != ".") out /= part;
  }
  return out.string();
}

bool OnTerminal() { return isatty(STDERR_FILENO) != 0; }

void Table::Print() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
  }
}

}  // namespace stoker::cli
