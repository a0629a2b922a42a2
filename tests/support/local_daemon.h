// A daemon inside the test: everything but gRPC, so that one process (and one race detector) sees
// both ends. Clients are the real library over the real socket.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>

#include "client/include/stoker/stoker.h"
#include "config/daemon_config.h"
#include "daemon/session/attach_server.h"
#include "daemon/session/runtime_dir.h"
#include "tests/support/temp_dir.h"

namespace stoker::test {

class LocalDaemon {
 public:
  explicit LocalDaemon(unsigned workers, std::uint64_t memory = std::uint64_t{1} << 30)
      : budget_(memory), pool_(workers) {
    auto dir = session::RuntimeDir::Take(temp_ / "run", false);
    dir_ = std::make_unique<session::RuntimeDir>(std::move(*dir));
    v1::DaemonConfig config;
    config.set_cache_dir(temp_ / "cache");
    (void)config::FillDaemonDefaults(&config);
    stream::Environment environment;
    environment.budget = &budget_;
    environment.pool = &pool_;
    environment.cache_dir = config.cache_dir();
    streams_ = std::make_unique<stream::StreamManager>(environment, stream::ManagerLimits{});
    auto listener = dir_->Listen("attach.sock", SOCK_SEQPACKET, 0600, "");
    server_ =
        std::make_unique<session::AttachServer>(std::move(*listener), *session::PeerCheck::Make({}),
                                                streams_.get(), &pool_, config.limits());
    (void)server_->Start();
  }
  ~LocalDaemon() {
    streams_->Shutdown(Status(Code::kUnavailable, "the test is over"));
    server_->Stop();
    pool_.Stop();
  }

  std::string socket() const { return temp_ / "run/attach.sock"; }
  const TempDir& temp() const { return temp_; }
  stream::StreamManager& streams() { return *streams_; }
  stream::Budget& budget() { return budget_; }

  // Attaches by spec text. nullptr with stoker_last_error() where refused.
  stoker_stream* Attach(const std::string& spec, std::uint32_t rank = 0, std::uint32_t world = 1,
                        const char* token = nullptr) const {
    stoker_attach_options options = {};
    options.struct_bytes = sizeof(options);
    options.rank = rank;
    options.world_size = world;
    const std::string path = socket();
    options.socket_path = path.c_str();
    options.spec_text = spec.c_str();
    options.token = token;
    options.reconnect_timeout_ns = -1;
    stoker_stream* stream = nullptr;
    return stoker_attach(&options, &stream) == STOKER_OK ? stream : nullptr;
  }

 private:
  TempDir temp_;
  stream::Budget budget_;
  stream::WorkerPool pool_;
  std::unique_ptr<session::RuntimeDir> dir_;
  std::unique_ptr<stream::StreamManager> streams_;
  std::unique_ptr<session::AttachServer> server_;
};

}  // namespace stoker::test
