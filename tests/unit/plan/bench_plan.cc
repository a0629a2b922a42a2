// Rows a second of one thread, for each order, in calls of a few sizes.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "daemon/plan/epoch_plan.h"

namespace {

using stoker::plan::EpochPlan;
using stoker::plan::OrderOptions;
using stoker::plan::RowId;
using stoker::plan::Shuffle;

void Measure(const char* name, const OrderOptions& options) {
  const auto plan = EpochPlan::Make(options, std::vector<std::uint64_t>(1024, 1250));
  if (!plan.ok()) return;
  for (const std::size_t call : {std::size_t{1}, std::size_t{64}, std::size_t{4096}}) {
    std::vector<RowId> ids(call);
    (*plan)->Rows(1, 0, ids);
    std::uint64_t rows = 0;
    std::uint64_t first = 0;
    RowId sum = 0;
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<double> spent{};
    while (spent.count() < 0.3) {
      for (int i = 0; i < 100; ++i) {
        if (first + call > (*plan)->rows()) first = 0;
        (*plan)->Rows(1, first, ids);
        sum ^= ids.back();
        first += call;
        rows += call;
      }
      spent = std::chrono::steady_clock::now() - start;
    }
    std::printf("%-24s %5zu rows a call  %8.1f million rows/s  (%llx)\n", name, call,
                static_cast<double>(rows) / spent.count() / 1e6,
                static_cast<unsigned long long>(sum));
  }
}

}  // namespace

int main() {
  OrderOptions options;
  options.seed = 7;
  Measure("NONE", options);
  options.cycle = 16;
  Measure("NONE, interleave 16", options);
  options.shuffle = Shuffle::kWindow;
  Measure("WINDOW", options);
  options.shuffle = Shuffle::kGlobal;
  Measure("GLOBAL", options);
}
