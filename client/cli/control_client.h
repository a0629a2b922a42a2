// ControlClient: one connection to the daemon's control service.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>

#include "client/cli/common.h"
#include "stoker/v1/control.grpc.pb.h"

namespace stoker::cli {

class ControlClient {
 public:
  explicit ControlClient(const Globals& globals);

  // One call with a deadline: by default an hour, for opening a stream may read all its shards.
  template <typename Request, typename Response>
  Status Call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
              const Request& request, Response* response,
              std::chrono::milliseconds patience = std::chrono::hours(1)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    return ToStatus((stub_.get()->*method)(&context, request, response));
  }

 private:
  Status ToStatus(const grpc::Status& status) const;

  const std::string socket_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

}  // namespace stoker::cli
