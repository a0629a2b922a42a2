// Short hands of the plan's tests.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/plan/epoch_plan.h"
#include "tests/support/catch.h"

namespace stoker::plan {

using Plan = std::shared_ptr<const EpochPlan>;

inline Plan MakePlan(const OrderOptions& options, std::vector<std::uint64_t> shards) {
  auto plan = EpochPlan::Make(options, std::move(shards));
  REQUIRE(plan.ok());
  return *plan;
}

inline std::vector<RowId> Epoch(const Plan& plan, std::uint64_t epoch) {
  std::vector<RowId> ids(plan->rows());
  plan->Rows(epoch, 0, ids);
  return ids;
}

// All records of the shards, in manifest order.
inline std::vector<RowId> AllRecords(const std::vector<std::uint64_t>& shards) {
  std::vector<RowId> ids;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    for (std::uint64_t r = 0; r < shards[s]; ++r) ids.push_back(MakeRowId(s, r));
  }
  return ids;
}

inline std::vector<RowId> Sorted(std::vector<RowId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

inline OrderOptions Options(Shuffle shuffle, std::uint64_t seed = 7) {
  OrderOptions options;
  options.shuffle = shuffle;
  options.seed = seed;
  return options;
}

}  // namespace stoker::plan
