// shuffle-check: whether a stream's order is one that training may rely on.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "client/cli/batch_reader.h"
#include "client/cli/common.h"
#include "client/cli/shuffle_stats.h"
#include "client/cli/target.h"
#include "daemon/plan/token.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kForever = -1;
constexpr std::int64_t kMasked = -1;

// The order is the question: what rows hold is delivered as cheaply as it can be.
void DropContent(v1::StreamSpec* spec) {
  v1::Tensor* cheap = spec->mutable_tensor(0);
  for (auto& tensor : *spec->mutable_tensor()) {
    if (!tensor.has_image()) cheap = &tensor;
    if (!tensor.has_image()) break;
  }
  v1::Tensor kept = *cheap;
  if (kept.has_image()) {
    kept.clear_image();
    kept.clear_op();
    kept.clear_kind();
    kept.clear_layout();
    kept.set_dtype(v1::BYTES);
  }
  spec->clear_tensor();
  *spec->add_tensor() = std::move(kept);
}

// The ids of up to `want` rows from `token` on, within one epoch. *next: a token of that stream.
Result<std::vector<std::int64_t>> FirstRows(const Globals& globals, const Target& target,
                                            const std::string& token, std::uint64_t want,
                                            std::string* next, std::uint64_t* records) {
  ReadOptions options;
  options.token = token;
  auto stream = Attach(globals, target, options);
  if (!stream.ok()) return stream.status();
  stoker_stream_info info = {};
  info.struct_bytes = sizeof(info);
  stoker_stream_get_info(stream->get(), &info);
  *records = info.rows_per_epoch;
  std::vector<std::int64_t> rows;
  while (rows.size() < want) {
    stoker_batch* taken = nullptr;
    const stoker_code code = stoker_next(stream->get(), kForever, &taken);
    if (code == STOKER_OUT_OF_RANGE) break;
    if (code != STOKER_OK) return LastError(code);
    const BatchPtr batch(taken);
    const BatchTensors tensors(taken);
    stoker_batch_info batch_info = {};
    batch_info.struct_bytes = sizeof(batch_info);
    stoker_batch_get_info(taken, &batch_info);
    for (std::uint32_t row = 0; row < batch_info.rows && rows.size() < want; ++row) {
      if (tensors.row_id(row) != kMasked) rows.push_back(tensors.row_id(row));
    }
  }
  char text[STOKER_TOKEN_MAX];
  if (const stoker_code code = stoker_stream_token(stream->get(), text, sizeof(text));
      code != STOKER_OK) {
    return LastError(code);
  }
  *next = text;
  return rows;
}

// The token of the beginning of epoch 1.
Result<std::string> SecondEpoch(const std::string& token) {
  auto at = plan::DecodeToken(token);
  if (!at.ok()) return at.status();
  at->epoch = 1;
  at->row = 0;
  return plan::EncodeToken(*at);
}

Json MixingJson(const EpochMixing& epoch) {
  Json out;
  out["rank_correlation"] = epoch.rank_correlation;
  out["neighbours"] = epoch.neighbours;
  out["neighbours_by_chance"] = epoch.neighbours_expected;
  out["step"] = epoch.step;
  return out;
}

void PrintMixing(const char* name, const EpochMixing& epoch) {
  std::printf("%s: rank correlation with the stored order %.3f; neighbours %" PRIu64
              ", by chance %.1f; step %.2f of chance's\n",
              name, epoch.rank_correlation, epoch.neighbours, epoch.neighbours_expected,
              epoch.step);
}

Result<ShuffleStats> Check(const Globals& globals, const Target& copy, std::uint64_t want,
                           std::uint64_t* compared, std::uint64_t* records) {
  std::string token;
  auto first = FirstRows(globals, copy, "", want, &token, records);
  if (!first.ok()) return first.status();
  auto second_token = SecondEpoch(token);
  if (!second_token.ok()) return second_token.status();
  auto second = FirstRows(globals, copy, *second_token, want, &token, records);
  if (!second.ok()) return second.status();
  *compared = std::min(first->size(), second->size());
  return CompareEpochs(*first, *second, *records);
}

int Run(const Globals& globals, const std::string& argument, std::uint64_t want) {
  auto target = FindTarget(globals, argument);
  if (!target.ok()) return Fail(target.status());
  auto copy = PrivateCopy(globals, *target, "shuffle-check");
  if (!copy.ok()) return Fail(copy.status());
  if (copy->spec->tensor_size() > 0) DropContent(&*copy->spec);
  std::uint64_t compared = 0;
  std::uint64_t records = 0;
  auto stats = Check(globals, *copy, want, &compared, &records);
  CloseCopy(globals, *copy);
  if (!stats.ok()) return Fail(stats.status());
  const char* verdict = VerdictName(stats->verdict);
  if (globals.json) {
    Json out;
    out["stream"] = target->name;
    out["rows_per_epoch"] = records;
    out["rows_compared"] = compared;
    out["overlap"] = stats->overlap;
    out["overlap_by_chance"] = stats->overlap_expected;
    out["rank_correlation"] =
        stats->rank_correlation ? Json(*stats->rank_correlation) : Json(nullptr);
    out["first_epoch"] = MixingJson(stats->first);
    out["second_epoch"] = MixingJson(stats->second);
    out["verdict"] = verdict;
    out["reason"] = stats->reason;
    std::printf("%s\n", out.dump(2).c_str());
  } else {
    std::printf("%s: the first %" PRIu64 " of %" PRIu64 " rows of two epochs\n",
                target->name.c_str(), compared, records);
    PrintMixing("first epoch", stats->first);
    PrintMixing("second epoch", stats->second);
    std::printf("in both: %" PRIu64 " rows, by chance %.1f", stats->overlap,
                stats->overlap_expected);
    if (stats->rank_correlation) {
      std::printf("; rank correlation of their places %.3f", *stats->rank_correlation);
    }
    std::printf("\n%s: %s\n", verdict, stats->reason.c_str());
  }
  return stats->verdict == ShuffleVerdict::kShuffled ? kDone : kFailed;
}

}  // namespace

void AddShuffleCheckCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* check = app->add_subcommand("shuffle-check", "compare the beginnings of two epochs");
  auto target = std::make_shared<std::string>();
  auto rows = std::make_shared<std::uint64_t>(10000);
  check->add_option("STREAM", *target, "a stream's name, or a spec file")->required();
  check->add_option("--rows", *rows, "rows of each epoch to compare")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100000000}));
  check->callback([=] { *exit_code = Run(*globals, *target, *rows); });
}

}  // namespace stoker::cli
