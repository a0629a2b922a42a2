#include "daemon/session/peer_check.h"

#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace stoker::session {
namespace {

constexpr unsigned kGroupBits = 0060;

Status Wrong(const std::string& what) { return Status(Code::kInvalidArgument, "access." + what); }

// "660" means 0660.
Result<unsigned> OctalMode(unsigned digits) {
  const std::string text = std::to_string(digits);
  unsigned mode = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || mode > 0770) {
    return Wrong("socket_mode: " + text + " is not an octal mode of at most 770");
  }
  if ((mode & 07) != 0) return Wrong("socket_mode: " + text + " lets every user in");
  return mode;
}

// The group ids of a process's user: its own and its supplementary ones.
bool InGroup(uid_t uid, gid_t gid, gid_t wanted) {
  if (gid == wanted) return true;
  char buffer[4096];
  passwd entry;
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) != 0 || found == nullptr)
    return false;
  int count = 256;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) return false;
  groups.resize(static_cast<std::size_t>(count));
  return std::find(groups.begin(), groups.end(), wanted) != groups.end();
}

}  // namespace

Result<PeerCheck> PeerCheck::Make(const v1::Access& access) {
  PeerCheck check;
  if (access.has_socket_mode()) {
    auto mode = OctalMode(access.socket_mode());
    if (!mode.ok()) return mode.status();
    check.mode_ = *mode;
  }
  if (!access.group().empty()) {
    const group* entry = getgrnam(access.group().c_str());
    if (entry == nullptr) return Wrong("group: no group \"" + access.group() + "\"");
    check.group_name_ = access.group();
    check.groups_.push_back(entry->gr_gid);
  }
  for (const auto& user : access.allow_user()) {
    uid_t uid = 0;
    const auto parsed = std::from_chars(user.data(), user.data() + user.size(), uid);
    if (parsed.ec == std::errc() && parsed.ptr == user.data() + user.size()) {
      check.users_->ids.push_back(uid);
    } else if (const passwd* entry = getpwnam(user.c_str())) {
      check.users_->ids.push_back(entry->pw_uid);
    } else {
      return Wrong("allow_user: no user \"" + user + "\"");
    }
  }
  return check;
}

void PeerCheck::AllowUsersOf(const PeerCheck& other) {
  std::vector<uid_t> ids;
  {
    std::lock_guard lock(other.users_->mutex);
    ids = other.users_->ids;
  }
  std::lock_guard lock(users_->mutex);
  users_->ids = std::move(ids);
}

Result<stream::Peer> PeerCheck::PeerOf(int fd) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Status(Code::kInternal, std::string("SO_PEERCRED: ") + std::strerror(errno));
  }
  stream::Peer peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  return peer;
}

Status PeerCheck::Allow(int fd) const {
  auto peer = PeerOf(fd);
  if (!peer.ok()) return peer.status();
  if (peer->uid == geteuid() || peer->uid == 0) return Status();
  {
    std::lock_guard lock(users_->mutex);
    const auto& ids = users_->ids;
    if (std::find(ids.begin(), ids.end(), peer->uid) != ids.end()) return Status();
  }
  if ((mode_ & kGroupBits) != 0) {
    for (const gid_t group : groups_) {
      if (InGroup(peer->uid, peer->gid, group)) return Status();
    }
  }
  char mode[8];
  std::snprintf(mode, sizeof(mode), "%04o", mode_);
  return Status(Code::kPermissionDenied,
                "uid " + std::to_string(peer->uid) + " may not connect: the socket has mode " +
                    mode + (group_name_.empty() ? " and no group" : ", group " + group_name_) +
                    "; ask for access.group or access.allow_user in the daemon's configuration");
}

}  // namespace stoker::session
