// stokerd: wiring, start and stop order.
//
// SIGHUP reads the configuration again: what can change changes, the rest is refused by name.
//
// Start: configuration, signals blocked in every thread, the runtime directory's lock, budget,
// worker pool, streams, attach server, control server, "ready". Stop is the reverse: no new
// clients, clients told, streams closed, workers joined, sockets unlinked, lock released.
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "config/daemon_config.h"
#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/control/control_server.h"
#include "daemon/main/directory.h"
#include "daemon/main/service.h"
#include "daemon/metrics/exposition.h"
#include "daemon/metrics/metrics_server.h"
#include "daemon/session/attach_server.h"
#include "daemon/session/peer_check.h"
#include "daemon/session/runtime_dir.h"
#include "daemon/stream/stream_manager.h"

namespace stoker {
namespace {

constexpr const char* kVersion = STOKER_VERSION;
// How long trainers may take, at a planned stop, to take the batches that are ready.
constexpr auto kDrain = std::chrono::seconds(1);

struct Flags {
  std::string config;
  std::string runtime_dir;
  std::string cache_dir;
  std::string state_dir;
  std::uint32_t workers = 0;
  std::uint64_t memory = 0;
  bool check = false;
  bool print_effective = false;
};

Result<v1::DaemonConfig> Configure(const Flags& flags, bool make_folders) {
  v1::DaemonConfig config;
  if (!flags.config.empty()) {
    auto loaded = config::LoadDaemonConfig(flags.config);
    if (!loaded.ok()) return loaded.status();
    config = std::move(*loaded);
  }
  if (!flags.runtime_dir.empty()) config.set_runtime_dir(flags.runtime_dir);
  if (!flags.cache_dir.empty()) config.set_cache_dir(flags.cache_dir);
  if (!flags.state_dir.empty()) config.set_state_dir(flags.state_dir);
  if (flags.workers != 0) config.set_workers(flags.workers);
  if (flags.memory != 0) config.set_memory_bytes(flags.memory);
  STOKER_TRY(config::FillDaemonDefaults(&config, make_folders));
  return config;
}

// Signals that stop the daemon or reload it, as a descriptor; blocked in every thread started from
// here on.
shm::Fd Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return shm::Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::string Summary(stream::StreamManager* streams) {
  std::size_t consumers = 0;
  const auto all = streams->List();
  for (const auto& stream : all) {
    for (const auto& lane : stream.lane()) {
      consumers += static_cast<std::size_t>(lane.consumer_size());
    }
  }
  return std::to_string(all.size()) + " streams, " + std::to_string(consumers) + " consumers";
}

// Reads the configuration again. A wrong one changes nothing. Answers what became of it.
std::string Reload(const Flags& flags, v1::DaemonConfig* running, session::PeerCheck* check) {
  const auto fresh = Configure(flags, false);
  const auto fresh_check = fresh.ok() ? session::PeerCheck::Make(fresh->access())
                                      : Result<session::PeerCheck>(fresh.status());
  if (!fresh_check.ok()) {
    LogError("the configuration is not reloaded: " + fresh_check.status().message());
    return "not reloaded: " + fresh_check.status().message();
  }
  std::string applied;
  std::string refused;
  for (const std::string& field : config::ChangedFields(*running, *fresh)) {
    // What indexing learnt at the start (a cache folder that cannot be made) is not a change.
    if (field == "cache_dir" && running->cache_dir().empty()) continue;
    if (field != "access.allow_user") {
      refused += (refused.empty() ? "" : ", ") + field;
      continue;
    }
    check->AllowUsersOf(*fresh_check);
    *running->mutable_access()->mutable_allow_user() = fresh->access().allow_user();
    applied = field;
  }
  std::string text = applied.empty() ? "reloaded: nothing changed" : "reloaded: " + applied;
  if (!refused.empty()) text += "; not before a restart: " + refused;
  refused.empty() ? LogInfo(text) : LogWarning(text);
  return text;
}

// Until a signal says stop. Each of the watchdog's notes asks every stream how it is first, so a
// daemon whose locks are stuck falls silent and is restarted.
void Watch(const shm::Fd& signals, const Flags& flags, v1::DaemonConfig* config,
           session::PeerCheck* check, stream::StreamManager* streams, ServiceManager* service) {
  pollfd watched = {signals.get(), POLLIN, 0};
  const auto every = service->alive_every();
  std::string note;
  while (true) {
    const int got = poll(&watched, 1, every.count() == 0 ? -1 : static_cast<int>(every.count()));
    if (every.count() != 0) {
      service->Alive(Summary(streams) + (note.empty() ? "" : "; " + note));
    }
    signalfd_siginfo signal = {};
    if (got <= 0 || read(signals.get(), &signal, sizeof(signal)) != sizeof(signal)) continue;
    if (signal.ssi_signo != SIGHUP) return;
    service->Reloading();
    note = Reload(flags, config, check);
    service->Reloaded(note);
  }
}

Status Serve(v1::DaemonConfig config, const Flags& flags) {
  const shm::Fd signals = Signals();
  auto inherited = TakeInheritedSockets();
  if (!inherited.ok()) return inherited.status();
  const std::string& group = config.access().group();
  auto dir = session::RuntimeDir::Take(config.runtime_dir(), !group.empty());
  if (!dir.ok()) return dir.status();
  auto check = session::PeerCheck::Make(config.access());
  if (!check.ok()) return check.status();
  const unsigned mode = check->socket_mode();
  // The manager's sockets stay when we go: clients wait in their queues for the next daemon.
  Result<shm::Fd> attach_fd = inherited->attach.valid()
                                  ? Result<shm::Fd>(std::move(inherited->attach))
                                  : dir->Listen("attach.sock", SOCK_SEQPACKET, mode, group);
  if (!attach_fd.ok()) return attach_fd.status();
  Result<shm::Fd> control_fd = inherited->control.valid()
                                   ? Result<shm::Fd>(std::move(inherited->control))
                                   : dir->Listen("control.sock", SOCK_STREAM, mode, group);
  if (!control_fd.ok()) return control_fd.status();

  DaemonFacts facts;
  facts.version = kVersion;
  facts.runtime_dir = config.runtime_dir();
  facts.cache_dir = config.cache_dir();
  facts.workers = config.workers();
  facts.workers_reason = "workers is set";
  if (!config.has_workers()) {
    const CpuAllowance cpus = AllowedCpus();
    facts.workers = cpus.cpus;
    facts.workers_reason = cpus.reason;
  }
  const std::uint64_t memory =
      config.has_memory_bytes() ? config.memory_bytes() : TotalMemory() / 2;

  stream::Budget budget(memory);
  stream::WorkerPool pool(facts.workers);
  stream::Environment environment;
  environment.budget = &budget;
  environment.pool = &pool;
  environment.cache_dir = config.cache_dir();
  environment.data_roots.assign(config.data_root().begin(), config.data_root().end());
  auto state = state::StateStore::Open(config.state_dir());
  if (state.ok()) {
    environment.state = state->get();
  } else {
    LogWarning("streams will not outlive a restart: " + state.status().message());
  }
  stream::UserQuota quota({config.limits().streams_per_user(), config.limits().slots_per_user(),
                           config.limits().bytes_per_user()});
  environment.quota = &quota;
  stream::StreamManager streams(environment, {config.limits().streams()});
  streams.Restore();
  Directory directory(&streams, &budget, facts);

  session::AttachServer attach(std::move(*attach_fd), *check, &streams, &pool, config.limits());
  control::ControlServer control(std::move(*control_fd), &directory,
                                 [check = *check](int fd) { return check.Allow(fd); });
  std::optional<metrics::MetricsServer> scraped;
  if (!config.metrics().listen().empty()) {
    scraped.emplace(config.metrics().listen(), [&directory] {
      return metrics::Exposition(directory.Daemon(), directory.ListStreams());
    });
    STOKER_TRY(scraped->Start());
  }
  STOKER_TRY(control.Start());
  STOKER_TRY(attach.Start());

  LogInfo("stokerd ready: version " + facts.version + ", runtime directory " +
          config.runtime_dir() + ", " + std::to_string(facts.workers) + " workers (" +
          facts.workers_reason + "), " + std::to_string(memory) + " bytes of memory");
  ServiceManager service;
  service.Ready("serves on " + config.runtime_dir());
  Watch(signals, flags, &config, &*check, &streams, &service);
  LogInfo("stokerd stops");
  service.Stopping();
  if (scraped) scraped->Stop();
  const Status why(Code::kUnavailable, "the daemon is shutting down");
  streams.Drain(kDrain);
  streams.Shutdown(why);
  attach.Stop();
  control.Stop();
  pool.Stop();
  return Status();
}

// --check and --print-effective: what a start would use, without starting or making anything.
Status Show(v1::DaemonConfig config, bool print) {
  const auto check = session::PeerCheck::Make(config.access());
  if (!check.ok()) return check.status();
  if (!config.metrics().listen().empty()) {
    STOKER_TRY(metrics::MetricsServer::CheckAddress(config.metrics().listen()));
  }
  if (print) {
    if (!config.has_workers()) config.set_workers(AllowedCpus().cpus);
    if (!config.has_memory_bytes()) config.set_memory_bytes(TotalMemory() / 2);
    std::printf("%s", config::DaemonConfigText(config).c_str());
  } else {
    std::printf("the configuration is good\n");
  }
  if (std::fflush(stdout) == 0) return Status();
  return Status(Code::kInternal, "stdout cannot be written");
}

int Main(int argc, char** argv) {
  CLI::App app("Stoker's daemon: reads TFRecords, prepares batches, serves them to trainers.");
  Flags flags;
  app.add_option("--config", flags.config, "configuration file, protobuf text format")
      ->check(CLI::ExistingFile);
  app.add_option("--runtime-dir", flags.runtime_dir, "folder of the sockets");
  app.add_option("--cache-dir", flags.cache_dir, "folder of index sidecars");
  app.add_option("--state-dir", flags.state_dir, "folder of stored stream state");
  app.add_option("--workers", flags.workers, "threads that prepare rows")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory", flags.memory, "the daemon's budget, bytes");
  app.add_flag("--check", flags.check, "judge the configuration and leave");
  app.add_flag("--print-effective", flags.print_effective,
               "print the configuration with every default filled in, and leave");
  app.set_version_flag("--version", kVersion);
  CLI11_PARSE(app, argc, argv);

  const bool show = flags.check || flags.print_effective;
  auto config = Configure(flags, !show);
  const Status status = !config.ok() ? config.status()
                        : show       ? Show(*config, flags.print_effective)
                                     : Serve(*config, flags);
  if (status.ok()) return 0;
  LogError(status.message());
  return 1;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::Main(argc, argv); }
