// stokerd: wiring, start and stop order.
//
// Start: configuration, signals blocked in every thread, the runtime directory's lock, budget,
// worker pool, streams, attach server, control server, "ready". Stop is the reverse: no new
// clients, clients told, streams closed, workers joined, sockets unlinked, lock released.
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "config/daemon_config.h"
#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/control/control_server.h"
#include "daemon/main/directory.h"
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
};

Result<v1::DaemonConfig> Configure(const Flags& flags) {
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
  STOKER_TRY(config::FillDaemonDefaults(&config));
  return config;
}

// Signals that stop the daemon, as a descriptor; blocked in every thread started from here on.
shm::Fd StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return shm::Fd(signalfd(-1, &signals, SFD_CLOEXEC));
}

Status Serve(const v1::DaemonConfig& config) {
  const shm::Fd stop_signals = StopSignals();
  const std::string& group = config.access().group();
  auto dir = session::RuntimeDir::Take(config.runtime_dir(), !group.empty());
  if (!dir.ok()) return dir.status();
  auto check = session::PeerCheck::Make(config.access());
  if (!check.ok()) return check.status();
  const unsigned mode = check->socket_mode();
  auto attach_fd = dir->Listen("attach.sock", SOCK_SEQPACKET, mode, group);
  if (!attach_fd.ok()) return attach_fd.status();
  auto control_fd = dir->Listen("control.sock", SOCK_STREAM, mode, group);
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
  STOKER_TRY(control.Start());
  STOKER_TRY(attach.Start());

  LogInfo("stokerd ready: version " + facts.version + ", runtime directory " +
          config.runtime_dir() + ", " + std::to_string(facts.workers) + " workers (" +
          facts.workers_reason + "), " + std::to_string(memory) + " bytes of memory");
  sd_notify(0, "READY=1");

  signalfd_siginfo signal;
  while (read(stop_signals.get(), &signal, sizeof(signal)) < 0 && errno == EINTR) {
  }
  LogInfo("stokerd stops");
  sd_notify(0, "STOPPING=1");
  const Status why(Code::kUnavailable, "the daemon is shutting down");
  streams.Drain(kDrain);
  streams.Shutdown(why);
  attach.Stop();
  control.Stop();
  pool.Stop();
  return Status();
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
  app.set_version_flag("--version", kVersion);
  CLI11_PARSE(app, argc, argv);

  auto config = Configure(flags);
  const Status status = config.ok() ? Serve(*config) : config.status();
  if (status.ok()) return 0;
  LogError(status.message());
  return 1;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::Main(argc, argv); }
