// What this process may use of the machine: CPUs and memory, as affinity and cgroups (v1 and v2,
// up to the root) allow them.
//
// Thread-safety: any thread. Blocking: reads small files of /proc and /sys. Nothing here fails: a
// file that is missing sets no limit.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

struct CpuAllowance {
  unsigned cpus = 1;
  std::string reason;  // "affinity of 2 CPUs", "cgroup quota of 1.5 CPUs (/x/cpu.max)"
};

// The smaller of the affinity mask and the tightest CPU quota, at least 1; a quota is rounded up.
// `cgroup_root` and `proc_cgroup` are seams for tests.
CpuAllowance AllowedCpus(const std::string& cgroup_root = "/sys/fs/cgroup",
                         const std::string& proc_cgroup = "/proc/self/cgroup");

struct MemoryAllowance {
  std::uint64_t free_bytes = 0;
  std::string limit;  // "MemAvailable", or the path of the cgroup's limit file
};

// The tightest of MemAvailable and, for each memory cgroup up to the root, limit - usage + clean
// file cache.
MemoryAllowance FreeMemory(const std::string& cgroup_root = "/sys/fs/cgroup",
                           const std::string& proc_cgroup = "/proc/self/cgroup",
                           const std::string& meminfo = "/proc/meminfo");

// Memory of the machine or of the tightest cgroup limit, whichever is smaller.
std::uint64_t TotalMemory(const std::string& cgroup_root = "/sys/fs/cgroup",
                          const std::string& proc_cgroup = "/proc/self/cgroup",
                          const std::string& meminfo = "/proc/meminfo");

}  // namespace stoker
