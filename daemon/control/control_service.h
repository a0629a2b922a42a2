// ControlService: the RPCs of proto/stoker/v1/control.proto over a StreamDirectory, for one user.
//
// Thread-safety: gRPC calls it from its own threads. Errors: the directory's, code for code.
#pragma once

#include <sys/types.h>

#include "daemon/control/stream_directory.h"
#include "stoker/v1/control.grpc.pb.h"

namespace stoker::control {

class ControlService final : public v1::Control::Service {
 public:
  // Every call is made in the name of `uid`.
  ControlService(StreamDirectory* directory, uid_t uid) : directory_(directory), uid_(uid) {}

  grpc::Status OpenStream(grpc::ServerContext* context, const v1::OpenStreamRequest* request,
                          v1::OpenStreamResponse* response) override;
  grpc::Status CloseStream(grpc::ServerContext* context, const v1::CloseStreamRequest* request,
                           v1::CloseStreamResponse* response) override;
  grpc::Status ListStreams(grpc::ServerContext* context, const v1::ListStreamsRequest* request,
                           v1::ListStreamsResponse* response) override;
  grpc::Status GetStream(grpc::ServerContext* context, const v1::GetStreamRequest* request,
                         v1::GetStreamResponse* response) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override;
  grpc::Status Audit(grpc::ServerContext* context, const v1::AuditRequest* request,
                     v1::AuditResponse* response) override;
  grpc::Status Which(grpc::ServerContext* context, const v1::WhichRequest* request,
                     v1::WhichResponse* response) override;
  grpc::Status GetDaemon(grpc::ServerContext* context, const v1::GetDaemonRequest* request,
                         v1::GetDaemonResponse* response) override;

 private:
  StreamDirectory* const directory_;
  const uid_t uid_;
};

}  // namespace stoker::control
