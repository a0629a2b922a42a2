// PeerCheck: who may connect, by the kernel's word (SO_PEERCRED).
//
// The socket's mode and group keep most out; this is the second door, the same for both sockets.
// Thread-safety: immutable. Errors of Make(): kInvalidArgument for an unknown user or group, or a
// mode that lets others in.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/stream/consumer.h"
#include "stoker/v1/daemon.pb.h"

namespace stoker::session {

class PeerCheck {
 public:
  static Result<PeerCheck> Make(const v1::Access& access);

  unsigned socket_mode() const { return mode_; }
  // kPermissionDenied with uid, mode and group where the peer of `fd` may not.
  Status Allow(int fd) const;

  // The peer of a connected socket; `host` stays empty.
  static Result<stream::Peer> PeerOf(int fd);

 private:
  unsigned mode_ = 0600;
  std::string group_name_;
  std::vector<gid_t> groups_;
  std::vector<uid_t> users_;
};

}  // namespace stoker::session
