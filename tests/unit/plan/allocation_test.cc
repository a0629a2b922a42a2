// Asking for rows allocates nothing once the epoch's table stands.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/plan/plans.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// None is inlined: the compiler would see one half of a pair and warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace stoker::plan {
namespace {

TEST_CASE("asking for rows and spares allocates nothing", "[plan][order]") {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
    for (const std::uint32_t cycle : {1u, 5u}) {
      OrderOptions options = Options(shuffle);
      options.cycle = cycle;
      options.window_rows = 70;
      const Plan plan = MakePlan(options, {100, 0, 250, 33, 7, 90, 200});
      std::vector<RowId> ids(50);
      plan->Rows(0, 0, ids);
      plan->Rows(1, 0, ids);
      const std::uint64_t before = allocations.load();
      for (std::uint64_t first = 0; first + ids.size() <= plan->rows(); first += 31) {
        plan->Rows(0, first, ids);
        plan->Rows(1, first, ids);
        ids[0] = plan->Spare(1, first, 16);
      }
      const std::uint64_t after = allocations.load();
      CHECK(after == before);
    }
  }
}

}  // namespace
}  // namespace stoker::plan
