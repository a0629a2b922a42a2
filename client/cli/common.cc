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
  // Not normalised by text: `..` behind a link leads where the file system says.
  const auto folder = std::filesystem::absolute(path).parent_path();
  for (auto& source : *spec->mutable_source()) {
    for (auto& file : *source.mutable_files()) {
      if (!file.empty() && file[0] != '/') file = (folder / file).string();
    }
  }
  return spec;
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

std::string Bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string Base64(const std::byte* bytes, std::size_t n) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (std::size_t i = 0; i < n; i += 3) {
    std::uint32_t group = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (i + 1 < n) group |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (i + 2 < n) group |= static_cast<std::uint32_t>(bytes[i + 2]);
    out += kDigits[group >> 18];
    out += kDigits[(group >> 12) & 63];
    out += i + 1 < n ? kDigits[(group >> 6) & 63] : '=';
    out += i + 2 < n ? kDigits[group & 63] : '=';
  }
  return out;
}

}  // namespace stoker::cli
