#include "client/cli/verdict.h"

#include <cmath>

#include "tests/support/catch.h"

namespace stoker::cli {
namespace {

// A stream whose rank 0 has waited and been full for so long.
v1::StreamStatus Look(double wait, double full, std::uint64_t batches) {
  v1::StreamStatus stream;
  auto* lane = stream.add_lane();
  lane->set_consumer_wait_seconds(wait);
  lane->set_producer_blocked_seconds(full);
  lane->set_batches_delivered(batches);
  stream.mutable_counters()->set_rows(batches * 10);
  return stream;
}

TEST_CASE("a trainer that waits while workers compute has too few of them", "[cli]") {
  const Observed seen = Compare(Look(1, 0, 5), Look(4, 0, 25), 10, 18, 2);
  CHECK(std::abs(seen.wait_share - 0.3) < 1e-9);
  CHECK(std::abs(seen.cpu_share - 0.9) < 1e-9);
  CHECK(std::abs(seen.rows_per_second - 20) < 1e-9);
  CHECK(Judge(seen) == Limit::kWorkers);
  CHECK(Sentence(seen) ==
        "the workers are the limit: the trainer waited for 30 % of the time while 2 workers used "
        "90 % of their CPUs; more workers or cheaper ops help");
}

TEST_CASE("a trainer that waits while workers are idle waits for the storage", "[cli]") {
  CHECK(Judge(Compare(Look(1, 0, 5), Look(4, 0, 25), 10, 2, 2)) == Limit::kStorage);
}

TEST_CASE("a lane whose slots are taken and whose trainer never waits has a slow trainer",
          "[cli]") {
  const Observed seen = Compare(Look(1, 2, 5), Look(1.1, 11, 25), 10, 18, 2);
  CHECK(std::abs(seen.full_share - 0.9) < 1e-9);
  CHECK(Judge(seen) == Limit::kTrainer);
}

TEST_CASE("where nobody waits for long there is no limit to name", "[cli]") {
  CHECK(Judge(Compare(Look(1, 2, 5), Look(1.4, 2.4, 25), 10, 18, 2)) == Limit::kNone);
}

TEST_CASE("the lane that waited longest is judged", "[cli]") {
  auto before = Look(0, 0, 5);
  auto after = Look(0, 9, 6);
  for (auto* stream : {&before, &after}) stream->add_lane()->set_rank(1);
  after.mutable_lane(1)->set_consumer_wait_seconds(5);
  const Observed seen = Compare(before, after, 10, 19, 2);
  CHECK(seen.lanes == 2);
  CHECK(std::abs(seen.wait_share - 0.5) < 1e-9);
  CHECK(Judge(seen) == Limit::kWorkers);
}

TEST_CASE("lanes that went, came anew or failed are told apart from slow ones", "[cli]") {
  CHECK(Judge(Compare(Look(0, 0, 5), v1::StreamStatus(), 10, 0, 2)) == Limit::kNobodyReads);
  CHECK(Judge(Compare(Look(7, 0, 50), Look(1, 0, 3), 10, 0, 2)) == Limit::kNobodyReads);
  auto failed = Look(9, 0, 5);
  failed.mutable_lane(0)->set_error("bad record");
  CHECK(Judge(Compare(Look(1, 0, 5), failed, 10, 0, 2)) == Limit::kLaneFailed);
}

}  // namespace
}  // namespace stoker::cli
