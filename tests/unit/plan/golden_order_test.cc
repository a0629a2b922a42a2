// TensorFlow's own answers: every interleave vector, and the operator chains that a selection, an
// order and a grid can say. The others are named: D9 (semantics, section 6) where we differ on
// purpose, and those that other parts answer.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/plan/grid.h"
#include "tests/support/test_data.h"
#include "tests/unit/plan/plans.h"

namespace stoker::plan {
namespace {

using nlohmann::json;

std::vector<json> Vectors(const std::string& kind) {
  std::ifstream in(test::GoldenDir() / "wire" / "interleave.jsonl");
  std::vector<json> vectors;
  for (std::string line; std::getline(in, line);) {
    json vector = json::parse(line);
    if (vector["kind"] == kind) vectors.push_back(std::move(vector));
  }
  return vectors;
}

// split, skip, take, batch, repeat: the one order that a spec can say.
int Place(const std::string& step) {
  static const std::map<std::string, int> kPlaces = {
      {"shard", 0}, {"skip", 1}, {"take", 2}, {"batch", 3}, {"repeat", 4}};
  const auto found = kPlaces.find(step);
  return found == kPlaces.end() ? -1 : found->second;
}

struct Chain {
  OrderOptions order;
  Grid grid{0, 0, 1, Remainder::kPartial};  // batch 0: no batches
  int epochs = 1;
};

// Answers whether a spec can say the chain.
bool Translate(const json& steps, Chain* chain) {
  int last = -1;
  for (const json& step : steps) {
    const int place = Place(step[0]);
    if (place <= last) return false;
    last = place;
    switch (place) {
      case 0:
        chain->order.split_of = step[1];
        chain->order.split_part = step[2];
        break;
      case 1:
        chain->order.skip = static_cast<std::uint64_t>(step[1].get<std::int64_t>());  // -1: all
        break;
      case 2:
        if (step[1] >= 0) chain->order.take = step[1];
        break;
      case 3:
        chain->grid.batch = step[1];
        if (step[2]) chain->grid.remainder = Remainder::kDrop;
        break;
      default:
        if (step[1] < 1) return false;
        chain->epochs = step[1];
    }
  }
  // Batches across repeats are not ours.
  return !(chain->epochs > 1 && chain->grid.batch == 0 && steps.back()[0] != "repeat");
}

json Deliver(const Chain& chain, const EpochPlan& plan) {
  json out = json::array();
  for (int epoch = 0; epoch < chain.epochs; ++epoch) {
    std::vector<RowId> ids(plan.rows());
    plan.Rows(static_cast<std::uint64_t>(epoch), 0, ids);
    if (chain.grid.batch == 0) {
      for (const RowId id : ids) out.push_back(id);
      continue;
    }
    for (std::uint64_t k = 0; k < StepsLeft(chain.grid); ++k) {
      const RankRows part = RowsOf(chain.grid, StepAt(chain.grid, k), 0);
      const auto begin = ids.begin() + std::ptrdiff_t(part.first);
      out.push_back(std::vector<RowId>(begin, begin + part.count));
    }
  }
  return out;
}

TEST_CASE("NONE with interleave gives TensorFlow's sequence", "[plan][golden]") {
  const auto vectors = Vectors("interleave");
  CHECK(vectors.size() == 65);
  for (const json& v : vectors) {
    CAPTURE(v["name"].get<std::string>());
    OrderOptions options;
    options.cycle = v["cycle"];
    options.block = v["block"];
    const auto files = v["files"].get<std::vector<std::uint64_t>>();
    const auto want = v["order"].get<std::vector<std::int64_t>>();
    if (want.empty()) {  // D9: an empty dataset is refused
      CHECK_FALSE(EpochPlan::Make(options, files).ok());
      continue;
    }
    std::vector<std::int64_t> got;
    for (const RowId id : Epoch(MakePlan(options, files), 0)) {
      got.push_back(static_cast<std::int64_t>(ShardOf(id) * 1000 + RecordOf(id)));
    }
    CHECK(got == want);
  }
}

TEST_CASE("chains of split, skip, take, batch and repeat give TensorFlow's rows",
          "[plan][golden]") {
  std::map<std::string, int> counts;
  for (const json& v : Vectors("pipeline")) {
    CAPTURE(v["name"].get<std::string>());
    if (!v["source"].contains("range")) {
      ++counts["rows of tensors"];
      continue;
    }
    const json& steps = v["steps"];
    if (std::any_of(steps.begin(), steps.end(),
                    [](const json& step) { return step[0] == "filter_mod"; })) {
      ++counts["filter"];
      continue;
    }
    Chain chain;
    if (!Translate(steps, &chain)) {
      ++counts["D9"];
      continue;
    }
    const auto plan = EpochPlan::Make(chain.order, {v["source"]["range"].get<std::uint64_t>()});
    if (plan.ok()) chain.grid.rows_per_epoch = (*plan)->rows();
    if (v["result"].empty()) {
      ++counts["D9, refused as empty"];
      CHECK((!plan.ok() || !CheckNotEmpty(chain.grid).ok()));
      continue;
    }
    ++counts["ours"];
    REQUIRE(plan.ok());
    CHECK(Deliver(chain, **plan) == v["result"]);
  }
  CHECK(counts == std::map<std::string, int>{{"ours", 20},
                                             {"D9", 13},
                                             {"D9, refused as empty", 4},
                                             {"filter", 3},
                                             {"rows of tensors", 9}});
}

}  // namespace
}  // namespace stoker::plan
