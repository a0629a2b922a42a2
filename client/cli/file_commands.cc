// verify, index, repair: what is wrong with TFRecord files, and what can be done about it.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <thread>

#include "client/cli/common.h"
#include "client/cli/control_client.h"
#include "client/cli/meter.h"
#include "client/cli/outputs.h"
#include "client/cli/tool_input.h"
#include "client/cli/verifier.h"
#include "config/daemon_config.h"
#include "daemon/base/machine.h"
#include "daemon/io/record_writer.h"
#include "daemon/io/shard_index.h"

namespace stoker::cli {
namespace {

constexpr auto kGlance = std::chrono::seconds(5);

bool Shown(const Globals& globals) { return OnTerminal() && !globals.json; }

unsigned Threads(unsigned asked) { return asked > 0 ? asked : AllowedCpus().cpus; }

Json LossJson(const Loss& loss) {
  Json out;
  out["record"] = loss.record;
  out["offset"] = loss.offset;
  out["class"] = FaultName(loss.fault);
  out["detail"] = loss.detail;
  out["lost_bytes"] = loss.bytes;
  out["recovered"] = loss.recovered;
  return out;
}

void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int RunVerify(const Globals& globals, const std::vector<std::string>& paths, unsigned threads) {
  std::vector<VerifiedFile> files;
  double seconds = 0;
  {
    Meter meter(Shown(globals), "verify", TotalBytes(paths));
    files = Verify(paths, Threads(threads), &meter);
    seconds = meter.seconds();
  }
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t damaged = 0;
  Json list = Json::array();
  for (const auto& file : files) {
    records += file.records;
    bytes += file.bytes;
    damaged += file.damage.empty() && file.error.empty() ? 0 : 1;
    if (globals.json) {
      Json one;
      one["path"] = file.path;
      one["compression"] = file.compression;
      one["bytes"] = file.bytes;
      one["records"] = file.records;
      one["records_beyond_damage"] = file.beyond;
      one["damage"] = Json::array();
      for (const Loss& loss : file.damage) one["damage"].push_back(LossJson(loss));
      one["error"] = file.error.empty() ? Json(nullptr) : Json(file.error);
      list.push_back(std::move(one));
      continue;
    }
    if (!file.error.empty()) std::printf("%s\n", file.error.c_str());
    for (const Loss& loss : file.damage) std::printf("%s\n", LossText(file.path, loss).c_str());
    if (file.beyond > 0) {
      std::printf("%s: %" PRIu64
                  " good records lie behind the damage; `stoker repair` saves them\n",
                  file.path.c_str(), file.beyond);
    }
  }
  const double rate = static_cast<double>(bytes) / seconds;
  if (globals.json) {
    Json out;
    out["files"] = std::move(list);
    out["damaged_files"] = damaged;
    out["records"] = records;
    out["bytes"] = bytes;
    out["seconds"] = seconds;
    out["bytes_per_second"] = rate;
    PrintJson(out);
  } else {
    std::printf("%zu files, %" PRIu64 " good records, %s at %s/s: %s\n", files.size(), records,
                Bytes(bytes).c_str(), Bytes(static_cast<std::uint64_t>(rate)).c_str(),
                damaged == 0 ? "all good" : (std::to_string(damaged) + " damaged").c_str());
  }
  return damaged == 0 ? kDone : kFailed;
}

// The folder that the daemon looks for indexes in: the running one's own, else what one would have.
std::string CacheDir(const Globals& globals) {
  v1::GetDaemonResponse daemon;
  ControlClient client(globals);
  if (client.Call(&v1::Control::Stub::GetDaemon, v1::GetDaemonRequest(), &daemon, kGlance).ok()) {
    return daemon.cache_dir();
  }
  v1::DaemonConfig config;
  return config::FillDaemonDefaults(&config).ok() ? config.cache_dir() : "";
}

struct Indexed {
  io::LoadedIndex loaded;
  Status status;
};

std::vector<Indexed> IndexAll(const io::Manifest& manifest, const std::string& cache_dir,
                              unsigned threads, Meter* meter) {
  std::vector<Indexed> out(manifest.shards.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    pthread_setname_np(pthread_self(), "stoker-index");
    for (std::size_t i = next++; i < out.size(); i = next++) {
      io::IndexOptions options;
      options.cache_dir = cache_dir;
      auto loaded = io::LoadOrBuildIndex(manifest.shards[i], options);
      if (loaded.ok()) {
        out[i].loaded = std::move(*loaded);
      } else {
        out[i].status = loaded.status();
      }
      meter->Add(manifest.shards[i].identity.size);
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < threads; ++i) workers.emplace_back(work);
  workers.clear();
  return out;
}

int RunIndex(const Globals& globals, const std::vector<std::string>& paths, std::string cache_dir,
             unsigned threads) {
  if (cache_dir.empty()) cache_dir = CacheDir(globals);
  if (cache_dir.empty())
    return Fail("there is no cache folder to keep indexes in; give --cache-dir");
  io::ManifestOptions find;
  for (const auto& path : paths) find.files.push_back(AbsolutePath(path));
  auto manifest = io::BuildManifest(find);
  if (!manifest.ok()) return Fail(manifest.status());
  std::uint64_t bytes = 0;
  for (const auto& shard : manifest->shards) bytes += shard.identity.size;
  std::vector<Indexed> indexed;
  double seconds = 0;
  {
    Meter meter(Shown(globals), "index", bytes);
    indexed = IndexAll(*manifest, cache_dir, Threads(threads), &meter);
    seconds = meter.seconds();
  }
  bool failed = false;
  std::uint64_t records = 0;
  Json list = Json::array();
  Table table;
  table.Row({"FILE", "RECORDS", "LONGEST", "INDEX BYTES", "IT WAS"});
  for (std::size_t i = 0; i < indexed.size(); ++i) {
    const auto& path = manifest->shards[i].path;
    const auto& [loaded, status] = indexed[i];
    std::string error = status.message();
    if (loaded.index != nullptr && loaded.index->damage()) {
      const auto& damage = *loaded.index->damage();
      error = LossText(path, {damage.record, damage.offset, 0, damage.fault, damage.detail, false});
    }
    if (loaded.index != nullptr && loaded.origin == io::IndexOrigin::kBuiltNotStored) {
      error = loaded.note;
    }
    failed = failed || !error.empty();
    const std::string origin = loaded.index == nullptr                     ? "not made"
                               : loaded.origin == io::IndexOrigin::kLoaded ? "there already"
                               : loaded.origin == io::IndexOrigin::kBuilt  ? "built"
                                                                           : "not stored";
    const std::uint64_t count = loaded.index == nullptr ? 0 : loaded.index->records();
    const std::uint64_t longest = loaded.index == nullptr ? 0 : loaded.index->longest();
    const std::uint64_t memory = loaded.index == nullptr ? 0 : loaded.index->memory_bytes();
    records += count;
    table.Row(
        {path, std::to_string(count), std::to_string(longest), std::to_string(memory), origin});
    if (!error.empty()) table.Row({"  error: " + error});
    Json one;
    one["path"] = path;
    one["records"] = count;
    one["longest_bytes"] = longest;
    one["index_bytes"] = memory;
    one["origin"] = origin;
    one["error"] = error.empty() ? Json(nullptr) : Json(error);
    list.push_back(std::move(one));
  }
  if (globals.json) {
    Json out;
    out["cache_dir"] = cache_dir;
    out["files"] = std::move(list);
    out["records"] = records;
    out["seconds"] = seconds;
    PrintJson(out);
  } else {
    table.Print();
  }
  return failed ? kFailed : kDone;
}

Status Copy(const ToolInput& input, const std::string& to, io::Compression compression,
            Meter* meter, std::uint64_t* records, std::vector<Loss>* losses) {
  auto writer = io::RecordWriter::Create(to, compression);
  if (!writer.ok()) return writer.status();
  Salvager salvager(input.source, input.size, input.compression);
  std::span<const std::byte> payload;
  std::uint64_t reported = 0;
  while (salvager.Next(&payload, losses)) {
    STOKER_TRY(writer->Append(payload));
    if (++*records % 256 != 0) continue;
    if (Interrupted()) return InterruptedStatus();
    if (salvager.offset() > reported) meter->Add(salvager.offset() - reported);
    reported = std::max(reported, salvager.offset());
  }
  if (*records == 0) {
    return Status(Code::kDataLoss, input.doubt.value_or(input.path + ": no good record is in it"));
  }
  return writer->Close();
}

int RunRepair(const Globals& globals, const std::string& from, const std::string& to,
              const std::string& compression) {
  auto input = ToolInput::Open(from);
  if (!input.ok()) return Fail(input.status());
  auto staged = Staged::File(to);
  if (!staged.ok()) return Fail(staged.status());
  WatchInterrupts();
  std::uint64_t records = 0;
  std::vector<Loss> losses;
  Status done;
  {
    Meter meter(Shown(globals), "repair",
                input->compression == io::Compression::kPlain ? input->size : 0);
    const auto as = compression.empty() ? input->compression : CompressionOf(compression);
    done = Copy(*input, staged->temporary(), as, &meter, &records, &losses);
  }
  if (done.ok()) done = staged->Keep();
  if (!done.ok()) return Fail(done);
  if (globals.json) {
    Json out;
    out["input"] = from;
    out["output"] = staged->path();
    out["records"] = records;
    out["lost"] = Json::array();
    for (const Loss& loss : losses) out["lost"].push_back(LossJson(loss));
    PrintJson(out);
    return kDone;
  }
  for (const Loss& loss : losses) {
    std::printf("%s%s\n", loss.recovered ? "kept: " : "lost: ", LossText(from, loss).c_str());
  }
  std::printf("%s: %" PRIu64 " records, %zu damaged places in %s\n", staged->path().c_str(),
              records, losses.size(), from.c_str());
  return kDone;
}

}  // namespace

void AddFileCommands(CLI::App* app, Globals* globals, int* exit_code) {
  auto* verify = app->add_subcommand("verify", "check every checksum of TFRecord files");
  auto files = std::make_shared<std::vector<std::string>>();
  auto threads = std::make_shared<unsigned>(0);
  verify->add_option("FILE", *files, "TFRecord files")->required();
  verify->add_option("--threads", *threads, "default: the CPUs allowed")
      ->check(CLI::Range(1, 1024));
  verify->callback([=] { *exit_code = RunVerify(*globals, *files, *threads); });

  auto* index = app->add_subcommand("index", "make the indexes that a stream needs, beforehand");
  auto cache_dir = std::make_shared<std::string>();
  index->add_option("FILE", *files, "TFRecord files, globs or name@N, as specs name them")
      ->required();
  index->add_option("--cache-dir", *cache_dir, "the daemon's cache folder");
  index->add_option("--threads", *threads, "default: the CPUs allowed")->check(CLI::Range(1, 1024));
  index->callback([=] { *exit_code = RunIndex(*globals, *files, *cache_dir, *threads); });

  auto* repair = app->add_subcommand("repair", "copy the good records of a damaged file");
  auto from = std::make_shared<std::string>();
  auto to = std::make_shared<std::string>();
  auto compression = std::make_shared<std::string>();
  repair->add_option("IN", *from, "the damaged file")->required();
  repair->add_option("OUT", *to, "the file to make")->required();
  repair->add_option("--compression", *compression, "none, gzip or zlib; default: as IN")
      ->check(CLI::IsMember({"none", "gzip", "zlib"}));
  repair->callback([=] { *exit_code = RunRepair(*globals, *from, *to, *compression); });
}

}  // namespace stoker::cli
