#include "daemon/control/control_service.h"

#include <algorithm>

#include "config/spec.h"

namespace stoker::control {
namespace {

constexpr std::uint32_t kDefaultPage = 100;
constexpr std::uint32_t kLargestPage = 1000;

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

// The spec of a request that gives it as a message or as text.
template <typename Request>
Result<v1::StreamSpec> SpecOf(const Request& request) {
  if (request.has_spec() == !request.spec_text().empty()) {
    return Status(Code::kInvalidArgument, "give either spec or spec_text");
  }
  if (request.has_spec()) return request.spec();
  return config::ParseSpec(request.spec_text(), "spec_text");
}

}  // namespace

grpc::Status ControlService::OpenStream(grpc::ServerContext*, const v1::OpenStreamRequest* request,
                                        v1::OpenStreamResponse* response) {
  auto spec = SpecOf(*request);
  if (!spec.ok()) return ToGrpc(spec.status());
  bool created = false;
  auto stream = directory_->OpenStream(*spec, uid_, &created);
  if (!stream.ok()) return ToGrpc(stream.status());
  *response->mutable_stream() = std::move(*stream);
  response->set_created(created);
  return grpc::Status::OK;
}

grpc::Status ControlService::CloseStream(grpc::ServerContext*,
                                         const v1::CloseStreamRequest* request,
                                         v1::CloseStreamResponse*) {
  return ToGrpc(directory_->CloseStream(request->name()));
}

grpc::Status ControlService::ListStreams(grpc::ServerContext*,
                                         const v1::ListStreamsRequest* request,
                                         v1::ListStreamsResponse* response) {
  const std::uint32_t asked = request->page_size() == 0 ? kDefaultPage : request->page_size();
  const std::uint32_t page = std::min(asked, kLargestPage);
  // The token is the last name that was given: pages stay right while streams come and go.
  for (auto& stream : directory_->ListStreams()) {
    if (stream.name() <= request->page_token() && !request->page_token().empty()) continue;
    if (response->stream_size() == static_cast<int>(page)) {
      response->set_next_page_token(response->stream(response->stream_size() - 1).name());
      break;
    }
    *response->add_stream() = std::move(stream);
  }
  return grpc::Status::OK;
}

grpc::Status ControlService::GetStream(grpc::ServerContext*, const v1::GetStreamRequest* request,
                                       v1::GetStreamResponse* response) {
  auto found = directory_->GetStream(request->name());
  if (!found.ok()) return ToGrpc(found.status());
  *response = std::move(*found);
  return grpc::Status::OK;
}

grpc::Status ControlService::Explain(grpc::ServerContext*, const v1::ExplainRequest* request,
                                     v1::ExplainResponse* response) {
  auto spec = SpecOf(*request);
  if (!spec.ok()) return ToGrpc(spec.status());
  auto explained = directory_->Explain(*spec, uid_, std::max(1u, request->world_size()));
  if (!explained.ok()) return ToGrpc(explained.status());
  *response = std::move(*explained);
  return grpc::Status::OK;
}

grpc::Status ControlService::Audit(grpc::ServerContext*, const v1::AuditRequest* request,
                                   v1::AuditResponse* response) {
  auto audit = directory_->Audit(request->name());
  if (!audit.ok()) return ToGrpc(audit.status());
  *response = std::move(*audit);
  return grpc::Status::OK;
}

grpc::Status ControlService::Which(grpc::ServerContext*, const v1::WhichRequest* request,
                                   v1::WhichResponse* response) {
  auto rows = directory_->Which(*request);
  if (!rows.ok()) return ToGrpc(rows.status());
  *response = std::move(*rows);
  return grpc::Status::OK;
}

grpc::Status ControlService::GetDaemon(grpc::ServerContext*, const v1::GetDaemonRequest*,
                                       v1::GetDaemonResponse* response) {
  *response = directory_->Daemon();
  return grpc::Status::OK;
}

}  // namespace stoker::control
