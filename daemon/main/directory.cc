#include "daemon/main/directory.h"

#include <unistd.h>

#include "shm/attach_protocol.h"

namespace stoker {

Result<v1::StreamStatus> Directory::OpenStream(const v1::StreamSpec& spec, uid_t uid,
                                               bool* created) {
  auto stream = streams_->Open(spec, uid, false, created);
  if (!stream.ok()) return stream.status();
  return (*stream)->Describe();
}

Status Directory::CloseStream(const std::string& name) { return streams_->Close(name); }

std::vector<v1::StreamStatus> Directory::ListStreams() { return streams_->List(); }

Result<v1::GetStreamResponse> Directory::GetStream(const std::string& name) {
  auto stream = streams_->Find(name);
  if (!stream.ok()) return stream.status();
  v1::GetStreamResponse response;
  *response.mutable_stream() = (*stream)->Describe();
  *response.mutable_spec() = (*stream)->spec();
  return response;
}

Result<v1::ExplainResponse> Directory::Explain(const v1::StreamSpec& spec, uid_t uid,
                                               std::uint32_t world_size) {
  return streams_->Explain(spec, uid, world_size);
}

Result<v1::AuditResponse> Directory::Audit(const std::string& name) {
  return streams_->Audit(name);
}

Result<v1::WhichResponse> Directory::Which(const v1::WhichRequest& request) {
  auto stream = streams_->Find(request.name());
  if (!stream.ok()) return stream.status();
  return (*stream)->Which(request);
}

v1::GetDaemonResponse Directory::Daemon() {
  v1::GetDaemonResponse response;
  response.set_version(facts_.version);
  response.set_pid(getpid());
  response.set_workers(facts_.workers);
  response.set_workers_reason(facts_.workers_reason);
  response.set_budget_bytes(budget_->limit());
  response.set_budget_used_bytes(budget_->used());
  response.set_runtime_dir(facts_.runtime_dir);
  response.set_cache_dir(facts_.cache_dir);
  response.set_protocol(shm::kProtocolVersion);
  return response;
}

}  // namespace stoker
