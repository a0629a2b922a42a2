#include "daemon/base/machine.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

namespace stoker {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::string> ReadFirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

// A number, or nothing for "max", a missing file or nonsense.
std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  const auto line = ReadFirstLine(path);
  if (!line) return std::nullopt;
  std::istringstream in(*line);
  std::uint64_t value = 0;
  if (!(in >> value)) return std::nullopt;
  return value;
}

// The value behind `key` in a file of "key value" lines.
std::uint64_t ReadField(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string word;
  std::uint64_t value = 0;
  while (in >> word >> value) {
    if (word == key) return value;
  }
  return 0;
}

// Every folder from this process's cgroup up to the root, for the unified hierarchy (controller
// empty) or the version 1 hierarchy of `controller`.
std::vector<std::string> CgroupFolders(const std::string& root, const std::string& proc_cgroup,
                                       const std::string& controller) {
  std::ifstream in(proc_cgroup);
  std::string line;
  std::vector<std::string> folders;
  while (std::getline(in, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool wanted = controller.empty()
                            ? names == ",,"
                            : names.find("," + controller + ",") != std::string::npos;
    if (!wanted) continue;
    std::string path = line.substr(second + 1);
    const std::string base = controller.empty() ? root : root + "/" + controller;
    while (true) {
      folders.push_back(base + (path == "/" ? "" : path));
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
      if (path.empty()) path = "/";
    }
  }
  return folders;
}

struct MemoryLimit {
  std::uint64_t limit;
  std::uint64_t used;  // without clean file cache
  std::string file;
};

std::vector<MemoryLimit> MemoryLimits(const std::string& root, const std::string& proc_cgroup) {
  std::vector<MemoryLimit> limits;
  for (const auto& folder : CgroupFolders(root, proc_cgroup, "")) {
    const auto limit = ReadNumber(folder + "/memory.max");
    if (!limit) continue;
    const std::uint64_t usage = ReadNumber(folder + "/memory.current").value_or(0);
    const std::uint64_t file = ReadField(folder + "/memory.stat", "file");
    const std::uint64_t unclean = ReadField(folder + "/memory.stat", "shmem") +
                                  ReadField(folder + "/memory.stat", "file_dirty");
    const std::uint64_t clean = file > unclean ? file - unclean : 0;
    limits.push_back({*limit, usage > clean ? usage - clean : 0, folder + "/memory.max"});
  }
  for (const auto& folder : CgroupFolders(root, proc_cgroup, "memory")) {
    const auto limit = ReadNumber(folder + "/memory.limit_in_bytes");
    if (!limit || *limit > (std::uint64_t{1} << 60)) continue;  // version 1 writes "unlimited" so
    const std::uint64_t usage = ReadNumber(folder + "/memory.usage_in_bytes").value_or(0);
    const std::uint64_t cache = ReadField(folder + "/memory.stat", "cache");
    const std::uint64_t unclean =
        ReadField(folder + "/memory.stat", "shmem") + ReadField(folder + "/memory.stat", "dirty");
    const std::uint64_t clean = cache > unclean ? cache - unclean : 0;
    limits.push_back(
        {*limit, usage > clean ? usage - clean : 0, folder + "/memory.limit_in_bytes"});
  }
  return limits;
}

// `key` of /proc/meminfo, in bytes.
std::uint64_t MemInfo(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key + ":", 0) == 0) {
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
    }
  }
  return kUnlimited;
}

unsigned AffinityCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

CpuAllowance AllowedCpus(const std::string& cgroup_root, const std::string& proc_cgroup) {
  CpuAllowance best;
  best.cpus = AffinityCpus();
  best.reason = "affinity of " + std::to_string(best.cpus) + " CPUs";
  const auto consider = [&best](double quota, const std::string& file) {
    const auto cpus = static_cast<unsigned>(std::max(1.0, std::ceil(quota)));
    if (cpus >= best.cpus) return;
    best.cpus = cpus;
    std::ostringstream text;
    text << "cgroup quota of " << quota << " CPUs (" << file << ")";
    best.reason = text.str();
  };
  for (const auto& folder : CgroupFolders(cgroup_root, proc_cgroup, "")) {
    const auto line = ReadFirstLine(folder + "/cpu.max");
    if (!line) continue;
    std::istringstream in(*line);
    double quota = 0;
    double period = 0;
    if (in >> quota >> period && period > 0) consider(quota / period, folder + "/cpu.max");
  }
  for (const auto& folder : CgroupFolders(cgroup_root, proc_cgroup, "cpu")) {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
    std::ifstream period_file(folder + "/cpu.cfs_period_us");
    double quota = 0;
    double period = 0;
    if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) {
      consider(quota / period, folder + "/cpu.cfs_quota_us");
    }
  }
  return best;
}

MemoryAllowance FreeMemory(const std::string& cgroup_root, const std::string& proc_cgroup,
                           const std::string& meminfo) {
  MemoryAllowance best{MemInfo(meminfo, "MemAvailable"), "MemAvailable"};
  for (const auto& limit : MemoryLimits(cgroup_root, proc_cgroup)) {
    const std::uint64_t free = limit.limit > limit.used ? limit.limit - limit.used : 0;
    if (free < best.free_bytes) best = {free, limit.file};
  }
  return best;
}

std::uint64_t TotalMemory(const std::string& cgroup_root, const std::string& proc_cgroup,
                          const std::string& meminfo) {
  std::uint64_t total = MemInfo(meminfo, "MemTotal");
  for (const auto& limit : MemoryLimits(cgroup_root, proc_cgroup)) {
    total = std::min(total, limit.limit);
  }
  return total;
}

}  // namespace stoker
