// PeerCheck: who may connect, by the kernel's word (SO_PEERCRED).
//
// The socket's mode and group keep most out; this is the second door, the same for both sockets.
// Copies share their list of users, so one that is replaced while the daemon runs is replaced at
// both doors. Thread-safety: any thread. Errors of Make(): kInvalidArgument for an unknown user or
// group, or a mode that lets others in.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/stream/consumer.h"
#include "stoker/v1/daemon.pb.h"

namespace stoker::session {

class PeerCheck {
 public:
  static Result<PeerCheck> Make(const v1::Access& access);

  // Takes over the users that `other` allows, here and in every copy.
  void AllowUsersOf(const PeerCheck& other);

  unsigned socket_mode() const { return mode_; }
  // kPermissionDenied with uid, mode and group where the peer of `fd` may not.
  Status Allow(int fd) const;

  // The peer of a connected socket; `host` stays empty.
  static Result<stream::Peer> PeerOf(int fd);

 private:
  struct Users {
    std::mutex mutex;
    std::vector<uid_t> ids;
  };

  unsigned mode_ = 0600;
  std::string group_name_;
  std::vector<gid_t> groups_;
  std::shared_ptr<Users> users_ = std::make_shared<Users>();
};

}  // namespace stoker::session
