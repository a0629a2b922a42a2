// What a trainer sees of the order: every epoch is a permutation of the selected records, epochs
// differ, a seed repeats, and any row can be asked for alone.
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "daemon/base/philox.h"
#include "daemon/plan/permutation.h"
#include "tests/unit/plan/plans.h"

namespace stoker::plan {
namespace {

using Counts = std::vector<std::uint64_t>;

const Counts kTenShards = {10, 190, 55, 145, 100, 100, 1, 199, 120, 80};  // 1,000 records

Permutation Perm(std::uint64_t n, std::uint64_t seed) {
  return Permutation(n, RowRandom(seed, 0, 0, kRowOps));
}

// Kendall's tau between two orders of the same ids: 1 for equal, 0 for unrelated ones.
double Tau(const std::vector<RowId>& a, const std::vector<RowId>& b) {
  std::map<RowId, int> place;
  for (std::size_t i = 0; i < b.size(); ++i) place[b[i]] = static_cast<int>(i);
  std::vector<int> p;
  for (const RowId id : a) p.push_back(place.at(id));
  double agree = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::size_t j = i + 1; j < p.size(); ++j) agree += p[i] < p[j] ? 1 : -1;
  }
  return agree / (static_cast<double>(p.size()) * static_cast<double>(p.size() - 1) / 2);
}

TEST_CASE("a row id is the shard and the record, and filler is neither", "[plan][order]") {
  CHECK(MakeRowId(0, 0) == 0);
  CHECK(MakeRowId(3, 5) == 3298534883333);  // 3 * 2^40 + 5
  CHECK(ShardOf(3298534883333) == 3);
  CHECK(RecordOf(3298534883333) == 5);
  CHECK(MakeRowId(kMaxShards - 1, kMaxRecordsOfShard - 1) == INT64_MAX);
  CHECK(kFillerRow == -1);
}

TEST_CASE("each epoch has its own order, and a seed repeats all of them", "[plan][order]") {
  for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kWindow}) {
    OrderOptions options = Options(shuffle);
    options.window_rows = 100;
    const Plan plan = MakePlan(options, kTenShards);
    const Plan again = MakePlan(options, kTenShards);
    options.seed = 8;
    const Plan other = MakePlan(options, kTenShards);
    CHECK(Epoch(again, 2) == Epoch(plan, 2));  // asked first at epoch 2
    for (std::uint64_t e = 0; e < 5; ++e) {
      CAPTURE(e);
      const auto ids = Epoch(plan, e);
      CHECK(Sorted(ids) == AllRecords(kTenShards));
      CHECK(Epoch(again, e) == ids);
      CHECK(Epoch(other, e) != ids);
      // Under WINDOW a row stays near its place in the shards' sequence: epochs are not unrelated.
      for (std::uint64_t f = 0; f < e; ++f) {
        const auto earlier = Epoch(plan, f);
        CHECK(ids != earlier);
        if (shuffle == Shuffle::kGlobal) CHECK(std::abs(Tau(ids, earlier)) < 0.1);
      }
    }
  }
}

TEST_CASE("without reshuffle every epoch is the first", "[plan][order]") {
  for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kWindow}) {
    OrderOptions options = Options(shuffle);
    options.reshuffle = false;
    const Plan plan = MakePlan(options, kTenShards);
    CHECK(Epoch(plan, 1) == Epoch(plan, 0));
    options.reshuffle = true;
    CHECK(Epoch(plan, 1) == Epoch(MakePlan(options, kTenShards), 0));
  }
}

TEST_CASE("without shuffle and interleave the records come as stored", "[plan][order]") {
  const Plan plan = MakePlan(Options(Shuffle::kNone), {2, 0, 3});
  CHECK(Epoch(plan, 0) == AllRecords({2, 0, 3}));
  CHECK(Epoch(plan, 9) == AllRecords({2, 0, 3}));
}

TEST_CASE("every epoch is a permutation, and every row can be asked for alone",
          "[plan][order][property]") {
  std::mt19937_64 draw(20260101);
  const auto below = [&draw](std::uint64_t n) { return draw() % n; };
  for (int round = 0; round < 150; ++round) {
    Counts shards(1 + below(20));
    for (auto& n : shards) n = below(3) == 0 ? 0 : below(80);
    shards[below(shards.size())] += 1;
    OrderOptions options;
    options.shuffle = static_cast<Shuffle>(round % 3);
    options.seed = draw();
    options.window_rows = 1 + below(150);
    options.cycle = static_cast<std::uint32_t>(below(8));
    options.block = static_cast<std::uint32_t>(1 + below(5));
    CAPTURE(round, shards, options.window_rows, options.cycle, options.block);
    const Plan plan = MakePlan(options, shards);
    const std::uint64_t epoch = below(4);
    const auto ids = Epoch(plan, epoch);
    REQUIRE(Sorted(ids) == AllRecords(shards));
    for (std::uint64_t first = 0; first < ids.size();) {
      const std::uint64_t n = std::min<std::uint64_t>(1 + below(9), ids.size() - first);
      std::vector<RowId> some(n);
      plan->Rows(epoch, first, some);
      REQUIRE(some == std::vector<RowId>(ids.begin() + std::ptrdiff_t(first),
                                         ids.begin() + std::ptrdiff_t(first + n)));
      first += n;
    }
  }
}

TEST_CASE("split, skip and take select as written, in that order", "[plan][order]") {
  OrderOptions options = Options(Shuffle::kNone);
  options.split_of = 3;
  options.split_part = 1;
  options.skip = 1;
  options.take = 3;
  // Records in manifest order: 0.0 0.1 0.2 0.3 | 2.0 … 2.6 ; part 1 of 3: numbers 1 4 7 10.
  const Plan plan = MakePlan(options, {4, 0, 7});
  CHECK(Epoch(plan, 0) == std::vector<RowId>{MakeRowId(2, 0), MakeRowId(2, 3), MakeRowId(2, 6)});
  options.skip = 0;
  options.take = 2;
  CHECK(Epoch(MakePlan(options, {4, 0, 7}), 0) ==
        std::vector<RowId>{MakeRowId(0, 1), MakeRowId(2, 0)});
}

TEST_CASE("shuffling keeps to the selection", "[plan][order][property]") {
  std::mt19937_64 draw(5);
  for (int round = 0; round < 90; ++round) {
    Counts shards(1 + draw() % 9);
    for (auto& n : shards) n = draw() % 60;
    shards[0] += 40;
    OrderOptions options = Options(Shuffle::kNone, draw());
    options.split_of = static_cast<std::uint32_t>(1 + draw() % 4);
    options.split_part = static_cast<std::uint32_t>(draw() % options.split_of);
    options.skip = draw() % 8;
    if (draw() % 2 == 0) options.take = 1 + draw() % 100;
    std::vector<RowId> want;  // written from the definition, not from the plan
    const auto all = AllRecords(shards);
    for (std::size_t i = options.split_part; i < all.size(); i += options.split_of) {
      want.push_back(all[i]);
    }
    want.erase(want.begin(), want.begin() + std::ptrdiff_t(options.skip));
    if (options.take && *options.take < want.size()) want.resize(*options.take);
    CAPTURE(round, shards, options.split_of, options.split_part, options.skip);
    CHECK(Epoch(MakePlan(options, shards), 0) == want);
    for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kWindow}) {
      options.shuffle = shuffle;
      options.window_rows = 30;
      CHECK(Sorted(Epoch(MakePlan(options, shards), 1)) == want);
    }
    options.shuffle = Shuffle::kNone;
    options.cycle = 3;
    CHECK(Sorted(Epoch(MakePlan(options, shards), 1)) == want);
  }
}

TEST_CASE("an order without rows is refused with the numbers", "[plan][order]") {
  const auto message = [](const OrderOptions& options, Counts shards) {
    const auto plan = EpochPlan::Make(options, std::move(shards));
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.status().code() == Code::kInvalidArgument);
    return plan.status().message();
  };
  CHECK(message({}, {}) == "the order has 0 rows: 0 records in 0 shards");
  CHECK(message({}, {0, 0}) == "the order has 0 rows: 0 records in 2 shards");
  OrderOptions options;
  options.split_of = 4;
  options.split_part = 3;
  options.skip = 2;
  options.take = 10;
  CHECK(message(options, {8}) ==
        "the order has 0 rows: 8 records in 1 shard, split part 3 of 4, skip 2, take 10");
  options = {};
  options.take = 0;
  CHECK(message(options, {8}) == "the order has 0 rows: 8 records in 1 shard, take 0");
  options = {};
  options.split_of = 2;
  options.split_part = 2;
  CHECK(message(options, {8}) == "split: part 2 is not below of 2");
  CHECK(message({}, {(std::uint64_t{1} << 40) + 1}) ==
        "shard 0 has 1099511627777 records, more than 2^40");
  options = {};
  options.block = 0;
  CHECK(message(options, {8}) == "interleave: block is 0");
}

TEST_CASE("WINDOW permutes inside its windows, and windows span shards", "[plan][order]") {
  OrderOptions options = Options(Shuffle::kWindow);
  options.window_rows = 100;
  const Plan plan = MakePlan(options, kTenShards);
  options.window_rows = 1;  // the sequence that the windows are cut from
  const auto sequence = Epoch(MakePlan(options, kTenShards), 3);
  const auto rows = Epoch(plan, 3);
  int moved = 0;
  for (std::size_t w = 0; w < 10; ++w) {
    const auto begin = std::ptrdiff_t(w * 100);
    const std::vector<RowId> cut(sequence.begin() + begin, sequence.begin() + begin + 100);
    const std::vector<RowId> window(rows.begin() + begin, rows.begin() + begin + 100);
    CHECK(Sorted(window) == Sorted(cut));
    CHECK(std::abs(Tau(window, cut)) < 0.25);
    std::set<std::uint64_t> shards;
    for (const RowId id : window) shards.insert(ShardOf(id));
    CHECK(shards.size() > 1);
    for (std::size_t i = 0; i < 100; ++i) moved += window[i] != cut[i];
  }
  CHECK(moved > 950);
}

TEST_CASE("the shards of WINDOW are opened in another order each epoch", "[plan][order]") {
  OrderOptions options = Options(Shuffle::kWindow);
  options.window_rows = 1;
  options.cycle = 1;
  const Plan plan = MakePlan(options, Counts(30, 2));
  std::set<std::vector<RowId>> orders;
  for (std::uint64_t e = 0; e < 20; ++e) {
    const auto ids = Epoch(plan, e);
    for (std::size_t i = 0; i < ids.size(); i += 2) REQUIRE(ids[i + 1] == ids[i] + 1);
    orders.insert(ids);
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("WINDOW gives the same rows to threads that ask for many epochs at once",
          "[plan][order]") {
  OrderOptions options = Options(Shuffle::kWindow);
  options.window_rows = 64;
  const Plan plan = MakePlan(options, kTenShards);
  std::vector<std::vector<RowId>> want;
  for (std::uint64_t e = 0; e < 8; ++e) want.push_back(Epoch(MakePlan(options, kTenShards), e));
  std::array<bool, 4> same{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < same.size(); ++t) {
      threads.emplace_back([&, t] {
        bool all = true;
        std::vector<RowId> ids(1000);
        for (std::uint64_t i = 0; i < 40; ++i) {
          const std::uint64_t e = (i + t) % 8;  // more epochs than are kept
          plan->Rows(e, 0, ids);
          all = all && ids == want[e];
        }
        same[t] = all;
      });
    }
  }
  CHECK(same == std::array<bool, 4>{true, true, true, true});
}

TEST_CASE("all orders of a few rows are about equally likely", "[plan][order]") {
  // Degrees of freedom 5, 23 and 119; the bounds are those of one in ten thousand.
  const std::array<std::pair<std::uint64_t, double>, 3> cases = {
      {{3, 25.8}, {4, 57.0}, {5, 185.0}}};
  for (const auto& [n, bound] : cases) {
    CAPTURE(n);
    const Plan plan = MakePlan(Options(Shuffle::kGlobal, 99), {n});
    const double orders = std::tgamma(static_cast<double>(n) + 1);
    const int draws = static_cast<int>(orders) * 200;
    std::map<std::vector<RowId>, int> seen;
    for (int e = 0; e < draws; ++e) ++seen[Epoch(plan, static_cast<std::uint64_t>(e))];
    CHECK(static_cast<double>(seen.size()) == orders);
    double chi = 0;
    for (const auto& [order, count] : seen) chi += (count - 200.0) * (count - 200.0) / 200.0;
    CHECK(chi < bound);
  }
}

TEST_CASE("just above the dealt sizes, a pair of rows goes to every pair of places evenly",
          "[plan][order]") {
  const std::uint64_t n = Permutation::kTiny + 1;
  std::vector<int> pairs(n * n);
  const int draws = 100 * static_cast<int>(n * (n - 1));
  for (int s = 0; s < draws; ++s) {
    const Permutation p = Perm(n, static_cast<std::uint64_t>(s));
    ++pairs[p.At(0) * n + p.At(1)];
  }
  double chi = 0;
  for (std::uint64_t i = 0; i < n * n; ++i) {
    if (i / n == i % n) {
      REQUIRE(pairs[i] == 0);
    } else {
      chi += (pairs[i] - 100.0) * (pairs[i] - 100.0) / 100.0;
    }
  }
  CHECK(chi < 4505);  // 4,159 degrees of freedom, mean plus 3.8 deviations
}

TEST_CASE("the permutation is one-to-one at every small size and at sizes around squares",
          "[plan][order]") {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t n = 1; n <= 300; ++n) sizes.push_back(n);
  for (const std::uint64_t n : {1023u, 1024u, 1025u, 9999u, 10000u, 10001u, 65537u, 300007u}) {
    sizes.push_back(n);
  }
  for (const std::uint64_t n : sizes) {
    CAPTURE(n);
    const Permutation p = Perm(n, n);
    std::vector<std::int64_t> run(n);
    p.Run(0, run);
    std::vector<bool> hit(n);
    bool good = true;
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto to = static_cast<std::uint64_t>(run[i]);
      good = good && to < n && !hit[to] && to == p.At(i);
      if (to < n) hit[to] = true;
    }
    CHECK(good);
  }
}

// The network backwards, written from docs/design/order.md.
std::uint64_t Undo(std::uint64_t y, std::uint64_t n, std::uint64_t seed) {
  RowRandom random(seed, 0, 0, kRowOps);
  std::array<std::uint64_t, 8> keys{};
  for (auto& key : keys) key = random.Next64();
  std::uint64_t a = 1;
  while (a < (std::uint64_t{1} << 21) && a * a < n) ++a;
  const std::uint64_t b = (n + a - 1) / a;
  const auto hash = [](std::uint64_t digit, std::uint64_t key, std::uint64_t base) {
    std::uint64_t x = (digit ^ key) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9u;
    return (x >> 32) * base / 4294967296u;
  };
  do {
    std::uint64_t left = y / b;
    std::uint64_t right = y % b;
    for (int i = 6; i >= 0; i -= 2) {
      right = (right + b - hash(left, keys[static_cast<std::size_t>(i) + 1], b)) % b;
      left = (left + a - hash(right, keys[static_cast<std::size_t>(i)], a)) % a;
    }
    y = left * b + right;
  } while (y >= n);
  return y;
}

TEST_CASE("at 2^40 rows and beside it the permutation can be undone", "[plan][order]") {
  for (const std::uint64_t n :
       {std::uint64_t{1} << 40, (std::uint64_t{1} << 40) - 12345, (std::uint64_t{1} << 40) + 1}) {
    CAPTURE(n);
    const Permutation p = Perm(n, 3);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::uint64_t x = i * (n / 200) + i;
      const std::uint64_t y = p.At(x);
      REQUIRE(y < n);
      REQUIRE(Undo(y, n, 3) == x);
    }
  }
}

TEST_CASE("a plan of 2^40 rows deals without a table of them", "[plan][order]") {
  const Counts shards(1024, std::uint64_t{1} << 30);
  const Plan plan = MakePlan(Options(Shuffle::kGlobal), shards);
  CHECK(plan->rows() == std::uint64_t{1} << 40);
  CHECK(plan->memory_bytes() < 64 * 1024);
  std::vector<RowId> ids(1 << 16);
  plan->Rows(5, (std::uint64_t{1} << 40) - ids.size(), ids);
  const std::set<RowId> unique(ids.begin(), ids.end());
  CHECK(unique.size() == ids.size());
  std::vector<int> of_shard(1024);
  for (const RowId id : ids) {
    REQUIRE(RecordOf(id) < std::uint64_t{1} << 30);
    ++of_shard[ShardOf(id)];
  }
  CHECK(*std::max_element(of_shard.begin(), of_shard.end()) < 110);  // 64 on average
}

TEST_CASE("the order of a seed is fixed for ever", "[plan][order]") {
  const auto ids = [](Shuffle shuffle, Counts shards) {
    return Epoch(MakePlan(Options(shuffle), std::move(shards)), 1);
  };
  const auto head = [](std::vector<RowId> all) {
    all.resize(6);
    return all;
  };
  CHECK(ids(Shuffle::kGlobal, {6}) == std::vector<RowId>{5, 1, 3, 4, 2, 0});
  CHECK(head(ids(Shuffle::kGlobal, {1000})) == std::vector<RowId>{558, 296, 266, 70, 584, 805});
  CHECK(head(ids(Shuffle::kWindow, {1000})) == std::vector<RowId>{595, 843, 302, 462, 979, 525});
}

TEST_CASE("spares are selected records, all different, and their own for each row",
          "[plan][order]") {
  OrderOptions options = Options(Shuffle::kGlobal);
  options.split_of = 2;
  const Plan plan = MakePlan(options, kTenShards);
  const auto selected = Sorted(Epoch(plan, 0));
  std::set<std::vector<RowId>> sequences;
  for (std::uint64_t row = 0; row < 50; ++row) {
    std::vector<RowId> spares;
    for (std::uint32_t k = 1; k <= 16; ++k) {
      spares.push_back(plan->Spare(4, row, k));
      CHECK(plan->Spare(4, row, k) == spares.back());
      CHECK(std::binary_search(selected.begin(), selected.end(), spares.back()));
    }
    CHECK(std::set<RowId>(spares.begin(), spares.end()).size() == 16);
    sequences.insert(spares);
  }
  CHECK(sequences.size() == 50);
  CHECK(plan->Spare(4, 0, 1) != plan->Spare(5, 0, 1));
}

TEST_CASE("fewer records than spares come round again", "[plan][order]") {
  const Plan plan = MakePlan(Options(Shuffle::kNone), {3});
  std::set<RowId> spares;
  for (std::uint32_t k = 1; k <= 16; ++k) spares.insert(plan->Spare(0, 0, k));
  CHECK(spares == std::set<RowId>{0, 1, 2});
}

}  // namespace
}  // namespace stoker::plan
