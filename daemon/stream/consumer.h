// Consumer: one attached client, as the stream sees it: its mailbox and who it is.
//
// Ownership: made by the session, shared with the lane it reads; the lane lets go of it in
//   Lane::Remove(). Owns the mailbox's memory on the daemon's side.
// Thread-safety: Deliver() and NextReturn() under the lane's lock; the rest from any thread.
// Trust: every word that the client wrote is bounded and copied once in the ring before it is
//   returned here; whether it names a slot that the client holds is the lane's to check.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "daemon/base/status.h"
#include "shm/fd.h"
#include "shm/mailbox.h"

namespace stoker::stream {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string host;
};

class Consumer {
 public:
  // Sends the client a message: an error that it must know before it reads the error's word, or
  // that its stream is closing. Called from any thread, under the lane's lock; must not block.
  using Tell = std::function<void(bool closing, const Status&)>;
  // The client broke the protocol: the session ends it. Called once; must not block.
  using Disgrace = std::function<void(const std::string& why)>;

  // `pidfd` is the peer's, invalid where the kernel has none to give.
  Consumer(std::uint64_t id, Peer peer, shm::Fd pidfd, shm::DaemonMailbox mailbox, Tell tell,
           Disgrace disgrace)
      : id_(id),
        peer_(std::move(peer)),
        pidfd_(std::move(pidfd)),
        mailbox_(std::move(mailbox)),
        tell_(std::move(tell)),
        disgrace_(std::move(disgrace)) {}

  std::uint64_t id() const { return id_; }
  const Peer& peer() const { return peer_; }
  shm::DaemonMailbox& mailbox() { return mailbox_; }
  int pidfd() const { return pidfd_.get(); }
  // Whether the peer's process has ended, seen or not by the session.
  bool gone() const {
    pollfd entry = {pidfd_.get(), POLLIN, 0};
    return pidfd_.valid() && poll(&entry, 1, 0) == 1;
  }

  void TellError(const Status& status) { tell_(false, status); }
  void TellClosing(const Status& status) { tell_(true, status); }
  void Disgraced(const std::string& why) {
    if (!disgraced_.exchange(true)) disgrace_(why);
  }

  std::uint64_t batches_delivered = 0;  // under the lane's lock
  std::uint32_t held = 0;

 private:
  const std::uint64_t id_;
  const Peer peer_;
  const shm::Fd pidfd_;
  shm::DaemonMailbox mailbox_;
  const Tell tell_;
  const Disgrace disgrace_;
  std::atomic<bool> disgraced_{false};
};

}  // namespace stoker::stream
