// Directory: the control service's view of the stream manager.
#pragma once

#include <string>

#include "daemon/control/stream_directory.h"
#include "daemon/stream/stream_manager.h"

namespace stoker {

struct DaemonFacts {
  std::string version;
  unsigned workers = 1;
  std::string workers_reason;
  std::string runtime_dir;
  std::string cache_dir;
};

class Directory final : public control::StreamDirectory {
 public:
  // Borrows both; they outlive it.
  Directory(stream::StreamManager* streams, stream::Budget* budget, DaemonFacts facts)
      : streams_(streams), budget_(budget), facts_(std::move(facts)) {}

  Result<v1::StreamStatus> OpenStream(const v1::StreamSpec& spec, uid_t uid,
                                      bool* created) override;
  Status CloseStream(const std::string& name) override;
  std::vector<v1::StreamStatus> ListStreams() override;
  Result<v1::GetStreamResponse> GetStream(const std::string& name) override;
  Result<v1::ExplainResponse> Explain(const v1::StreamSpec& spec, uid_t uid,
                                      std::uint32_t world_size) override;
  Result<v1::AuditResponse> Audit(const std::string& name) override;
  Result<v1::WhichResponse> Which(const v1::WhichRequest& request) override;
  v1::GetDaemonResponse Daemon() override;

 private:
  stream::StreamManager* const streams_;
  stream::Budget* const budget_;
  const DaemonFacts facts_;
};

}  // namespace stoker
