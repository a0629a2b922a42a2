// reshard: the records of TFRecord files written again, as another set of shards.
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "client/cli/common.h"
#include "client/cli/external_shuffle.h"
#include "client/cli/meter.h"
#include "client/cli/outputs.h"
#include "client/cli/shard_set.h"
#include "client/cli/tool_input.h"
#include "daemon/io/shard_index.h"

namespace stoker::cli {
namespace {

// Of memory that the shuffle is given where the inputs are compressed: how much they may grow.
constexpr std::uint64_t kInflation = 4;

struct Settings {
  std::vector<std::string> files;
  std::string out;
  std::string name = "data";
  std::string compression = "none";
  std::uint64_t shards = 0;
  std::uint64_t shard_bytes = 0;
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;
  std::uint64_t seed = 0;
  bool shuffle = false;
};

Status Damaged(const std::string& path, const Loss& loss) {
  return Status(Code::kDataLoss, LossText(path, loss) + "; run `stoker repair` on it first");
}

// What a file was when the work began. Files are opened one at a time: there may be many.
struct Input {
  std::string path;
  std::uint64_t size = 0;
  io::Compression compression = io::Compression::kPlain;
};

Result<ToolInput> Reopen(const Input& input) {
  auto again = ToolInput::Open(input.path);
  if (!again.ok()) return again;
  if (again->doubt || again->size != input.size || again->compression != input.compression) {
    return Status(Code::kDataLoss,
                  input.path + ": shard-changed: it was changed while it was read");
  }
  return again;
}

// All records, in the order of the files given. Nothing damaged is passed over.
Status ForEachRecord(const std::vector<Input>& inputs, Meter* meter,
                     const ExternalShuffle::Sink& sink) {
  std::vector<Loss> losses;
  for (const Input& input : inputs) {
    auto file = Reopen(input);
    if (!file.ok()) return file.status();
    Salvager reader(file->source, file->size, file->compression);
    std::span<const std::byte> payload;
    std::uint64_t records = 0;
    std::uint64_t shown = 0;
    const bool plain = input.compression == io::Compression::kPlain;
    while (reader.Next(&payload, &losses) && losses.empty()) {
      STOKER_TRY(sink(payload));
      if (++records % 256 != 0) continue;
      if (Interrupted()) return InterruptedStatus();
      if (plain) meter->Add(reader.offset() - shown);
      if (plain) shown = reader.offset();
    }
    if (!losses.empty()) return Damaged(input.path, losses.front());
    meter->Add(input.size - shown);
  }
  return Status();
}

Result<std::uint64_t> CountRecords(const std::vector<Input>& inputs) {
  std::uint64_t records = 0;
  for (const Input& input : inputs) {
    auto file = Reopen(input);
    if (!file.ok()) return file.status();
    auto index =
        io::BuildIndex(file->source, file->size, file->compression, file->path, io::IndexOptions());
    if (!index.ok()) return index.status();
    if (const auto& damage = (*index)->damage()) {
      return Damaged(input.path,
                     {damage->record, damage->offset, 0, damage->fault, damage->detail, false});
    }
    if (Interrupted()) return InterruptedStatus();
    records += (*index)->records();
  }
  return records;
}

Status CheckCount(std::uint64_t records, std::uint64_t shards) {
  if (records == 0) return Status(Code::kInvalidArgument, "the files hold no records");
  if (shards <= records) return Status();
  return Status(Code::kInvalidArgument, std::to_string(shards) + " shards of " +
                                            std::to_string(records) +
                                            " records: some would be empty; ask for fewer");
}

struct Done {
  std::uint64_t records = 0;
  std::uint64_t shards = 0;
};

Result<Done> Write(const std::vector<Input>& inputs, const Settings& settings,
                   const std::string& folder, bool shown) {
  std::uint64_t bytes = 0;
  bool compressed = false;
  for (const Input& input : inputs) {
    bytes += input.size;
    compressed = compressed || input.compression != io::Compression::kPlain;
  }
  ShardSet::Options set;
  set.folder = folder;
  set.name = settings.name;
  set.compression = CompressionOf(settings.compression);
  set.shards = settings.shards;
  set.shard_bytes = settings.shard_bytes;
  if (!settings.shuffle) {
    if (settings.shards > 0) {
      auto records = CountRecords(inputs);
      if (!records.ok()) return records.status();
      STOKER_TRY(CheckCount(*records, settings.shards));
      set.records = *records;
    }
    ShardSet shards(set);
    Meter meter(shown, "reshard", bytes);
    STOKER_TRY(ForEachRecord(inputs, &meter, [&](auto payload) { return shards.Append(payload); }));
    STOKER_TRY(CheckCount(shards.records(), settings.shards));
    STOKER_TRY(shards.Finish());
    return Done{shards.records(), shards.shards()};
  }
  ExternalShuffle shuffle(folder, settings.seed, settings.memory_bytes,
                          compressed ? bytes * kInflation : bytes);
  {
    Meter meter(shown, "deal", bytes);
    STOKER_TRY(ForEachRecord(inputs, &meter, [&](auto payload) { return shuffle.Add(payload); }));
  }
  STOKER_TRY(CheckCount(shuffle.records(), settings.shards));
  set.records = shuffle.records();
  ShardSet shards(set);
  Meter meter(shown, "write", compressed ? 0 : bytes);
  STOKER_TRY(shuffle.Drain([&](auto payload) {
    if (Interrupted()) return InterruptedStatus();
    meter.Add(payload.size() + 16);
    return shards.Append(payload);
  }));
  STOKER_TRY(shards.Finish());
  return Done{shuffle.records(), shards.shards()};
}

int Run(const Globals& globals, Settings settings) {
  if ((settings.shards == 0) == (settings.shard_bytes == 0)) {
    (void)Fail("give either --shards or --shard-bytes");
    return kBadUsage;
  }
  std::vector<Input> inputs;
  for (const auto& path : settings.files) {
    auto input = ToolInput::Open(path);
    if (!input.ok()) return Fail(input.status());
    if (input->doubt) return Fail(*input->doubt);
    inputs.push_back({path, input->size, input->compression});
  }
  auto staged = Staged::Folder(settings.out);
  if (!staged.ok()) return Fail(staged.status());
  WatchInterrupts();
  auto done = Write(inputs, settings, staged->temporary(), OnTerminal() && !globals.json);
  if (!done.ok()) return Fail(done.status());
  if (const Status kept = staged->Keep(); !kept.ok()) return Fail(kept);
  const std::string pattern =
      staged->path() + "/" + settings.name + "-*-of-" +
      ShardPath("", "", 0, done->shards).substr(std::string("/-00000-of-").size());
  if (globals.json) {
    Json out;
    out["files"] = pattern;
    out["shards"] = done->shards;
    out["records"] = done->records;
    std::printf("%s\n", out.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s: %" PRIu64 " records in %" PRIu64 " shards\n", pattern.c_str(), done->records,
                done->shards);
  }
  return kDone;
}

}  // namespace

void AddReshardCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* reshard = app->add_subcommand("reshard", "write records again as another set of shards");
  auto settings = std::make_shared<Settings>();
  reshard->add_option("FILE", settings->files, "TFRecord files, read in this order")->required();
  reshard->add_option("--out", settings->out, "folder to make")->required();
  reshard->add_option("--name", settings->name, "what the shards are called")
      ->check([](const std::string& name) {
        const bool good = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
        return good ? "" : "a name does not begin with . and holds no /";
      });
  reshard->add_option("--shards", settings->shards, "how many")->check(CLI::Range(1, 99999));
  reshard->add_option("--shard-bytes", settings->shard_bytes, "or how large, such as 128MiB")
      ->transform(CLI::AsSizeValue(false));
  reshard->add_option("--compression", settings->compression, "none, gzip or zlib")
      ->check(CLI::IsMember({"none", "gzip", "zlib"}));
  reshard->add_flag("--shuffle", settings->shuffle, "in an order drawn from --seed");
  reshard->add_option("--seed", settings->seed, "of the shuffle");
  reshard->add_option("--memory", settings->memory_bytes, "of the shuffle, such as 1GiB")
      ->transform(CLI::AsSizeValue(false));
  reshard->callback([=] { *exit_code = Run(*globals, *settings); });
}

}  // namespace stoker::cli
