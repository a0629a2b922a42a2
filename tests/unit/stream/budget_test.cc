#include "daemon/stream/budget.h"

#include <fstream>

#include "daemon/stream/user_quota.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

TEST_CASE("a reservation over the daemon's own budget is refused with the numbers", "[budget]") {
  stream::Budget budget(1000, [] { return MemoryAllowance{100000, "MemAvailable"}; });
  auto first = budget.Reserve(600, "stream \"a\"");
  REQUIRE(first.ok());
  const auto second = budget.Reserve(500, "stream \"b\"");
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == Code::kResourceExhausted);
  for (const char* word : {"stream \"b\"", "500", "400", "memory_bytes", "1000"}) {
    CHECK(second.status().message().find(word) != std::string::npos);
  }
  first->Release();
  CHECK(budget.Reserve(1000, "stream \"b\"").ok());
}

TEST_CASE("the tightest limit is named, and reserved memory that is not touched counts",
          "[budget]") {
  stream::Budget budget(10000, [] { return MemoryAllowance{700, "/x/memory.max"}; });
  auto first = budget.Reserve(500, "a");
  REQUIRE(first.ok());
  const auto refused = budget.Reserve(300, "b");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("200 are free under /x/memory.max") != std::string::npos);
  first->Touched(500);  // now it shows in the machine's own figure
  CHECK(budget.Reserve(300, "b").ok());
}

TEST_CASE("memory that clients map already counts, even where it is over the budget", "[budget]") {
  stream::Budget budget(1000, [] { return MemoryAllowance{100000, "MemAvailable"}; });
  stream::Reservation held = budget.Hold(1500);
  CHECK(budget.used() == 1500);
  CHECK(budget.Reserve(1, "a").status().code() == Code::kResourceExhausted);
  held.Release();
  CHECK(budget.Reserve(1000, "a").ok());
}

TEST_CASE("what a user gives back it may take again, and another user has a share of its own",
          "[budget]") {
  stream::UserQuota quota({2, 8, 1000});
  auto a = quota.TakeLane(7, 4, 600);
  REQUIRE(a.ok());
  CHECK(quota.TakeLane(7, 5, 1).status().message() ==
        "limits.slots_per_user: uid 7 has 4 slots, asks for 5 more, and may have 8");
  CHECK(quota.TakeLane(7, 4, 401).status().message() ==
        "limits.bytes_per_user: uid 7 has 600 bytes of arenas, asks for 401 more, and may have "
        "1000");
  CHECK(quota.TakeLane(7, 4, ~std::uint64_t{0}).status().code() == Code::kResourceExhausted);
  CHECK(quota.TakeLane(8, 8, 1000).ok());
  CHECK(quota.TakeLane(7, 4, 400).ok());
  a->reset();
  CHECK(quota.TakeLane(7, 8, 1000).ok());
  auto first = quota.TakeStream(7);
  auto second = quota.TakeStream(7);
  CHECK(quota.TakeStream(7).status().message() ==
        "limits.streams_per_user: uid 7 has 2 streams, asks for 1 more, and may have 2");
}

TEST_CASE("limits of cgroups up to the root are found, clean file cache counted as free",
          "[budget]") {
  test::TempDir dir;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir / path).parent_path());
    std::ofstream(dir / path) << text;
  };
  write("cgroup", "0::/outer/inner\n");
  write("meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
  write("fs/outer/memory.max", "100000\n");
  write("fs/outer/memory.current", "60000\n");
  write("fs/outer/memory.stat", "anon 10000\nfile 50000\nshmem 5000\nfile_dirty 5000\n");
  write("fs/outer/inner/memory.max", "max\n");
  write("fs/outer/inner/cpu.max", "150000 100000\n");
  const auto free = FreeMemory(dir / "fs", dir / "cgroup", dir / "meminfo");
  CHECK(free.free_bytes == 100000 - (60000 - (50000 - 10000)));
  CHECK(free.limit == dir / "fs/outer/memory.max");
  CHECK(TotalMemory(dir / "fs", dir / "cgroup", dir / "meminfo") == 100000);
  const auto cpus = AllowedCpus(dir / "fs", dir / "cgroup");
  CHECK(cpus.cpus <= 2);
  write("fs/outer/cpu.max", "50000 100000\n");
  CHECK(AllowedCpus(dir / "fs", dir / "cgroup").cpus == 1);
}

}  // namespace
}  // namespace stoker
