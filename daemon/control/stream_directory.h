// StreamDirectory: what the control service asks of the daemon. Implemented in daemon/main.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "stoker/v1/control.pb.h"

namespace stoker::control {

class StreamDirectory {
 public:
  virtual ~StreamDirectory() = default;

  // `uid` is the caller's, by the kernel's word.
  virtual Result<v1::StreamStatus> OpenStream(const v1::StreamSpec& spec, uid_t uid,
                                              bool* created) = 0;
  virtual Status CloseStream(const std::string& name) = 0;
  virtual std::vector<v1::StreamStatus> ListStreams() = 0;  // by name
  virtual Result<v1::GetStreamResponse> GetStream(const std::string& name) = 0;
  virtual Result<v1::ExplainResponse> Explain(const v1::StreamSpec& spec, uid_t uid,
                                              std::uint32_t world_size) = 0;
  virtual Result<v1::AuditResponse> Audit(const std::string& name) = 0;
  virtual Result<v1::WhichResponse> Which(const v1::WhichRequest& request) = 0;
  virtual v1::GetDaemonResponse Daemon() = 0;
};

}  // namespace stoker::control
