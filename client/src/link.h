// Link: one attachment to one life of the daemon: socket, arena, mailbox.
//
// A stream has one link at a time and makes a new one when the daemon went away. A batch keeps the
// link it came from, so that its memory stays readable whatever happens to the daemon.
//
// Ownership: counted; the last of stream and batches frees it.
// Thread-safety: the count is atomic; Return() is locked; the rest belongs to the thread in
//   stoker_next.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "client/include/stoker/stoker.h"
#include "shm/attach_protocol.h"
#include "shm/fd.h"
#include "shm/fd_passing.h"
#include "shm/mailbox.h"
#include "shm/memfd.h"

namespace stoker::client {

class Link {
 public:
  // Connects to `path` and sends `attach`, until `deadline_ns` (CLOCK_MONOTONIC). On STOKER_OK
  // stores a link with one reference, which waits for its answer. STOKER_UNAVAILABLE where no
  // daemon listens.
  static stoker_code Ask(const char* path, const shm::Attach& attach, std::int64_t deadline_ns,
                         Link** out);
  // Waits for the answer. STOKER_DEADLINE_EXCEEDED: none yet, and it may be awaited again; after
  // any other code but STOKER_OK the link is of no use.
  stoker_code Await(std::int64_t deadline_ns);

  void Retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Answers how many bytes of an earlier lane's memory went with it; 0 where nothing did, or what
  // went was not Outlived().
  std::uint64_t Release();
  // The stream goes on with another link, and batches still hold this one.
  void Outlived() { outlived_.store(true, std::memory_order_relaxed); }
  // Tells the daemon that no earlier lane's memory is mapped any more.
  void SayOldArenaGone();

  const shm::AttachedBody& body() const { return body_; }
  const std::byte* slot(std::uint32_t number) const {
    return arena_.data() + std::uint64_t{number} * body_.slot_bytes;
  }
  std::uint64_t arena_bytes() const { return arena_.bytes(); }
  shm::ClientMailbox& mailbox() { return mailbox_; }

  // Gives a slot back. Any thread.
  void Return(std::uint32_t slot, std::uint32_t generation);
  std::uint32_t held() const { return held_.load(std::memory_order_relaxed); }
  void Held() { held_.fetch_add(1, std::memory_order_relaxed); }

  // Reads what lies on the socket, without waiting. Afterwards alive() and error() say how it is.
  void ReadSocket();
  bool alive() const { return alive_; }
  bool has_error() const { return has_error_; }
  // Repeats the daemon's error as this thread's own.
  stoker_code RaiseError() const;

  // Ends the attachment, whoever else inherited the socket.
  void End();
  // In a child of fork: drops the inherited descriptor and leaves the attachment to its owner.
  void Abandon() { socket_.Close(); }

 private:
  Link();
  ~Link();
  stoker_code Send(const shm::Attach& attach, std::int64_t deadline_ns);
  stoker_code OnAnswer(const std::byte* reply, shm::Received* received, shm::MessageType type);
  stoker_code Map(shm::Fd arena, shm::Fd mailbox, shm::Fd event);

  const pid_t owner_;  // the process that asked; a fork of it has no mailbox
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> held_{0};
  std::atomic<bool> outlived_{false};
  shm::Fd socket_;
  shm::Fd event_;
  shm::Mapping arena_;
  shm::Mapping mailbox_map_;
  shm::ClientMailbox mailbox_;
  shm::AttachedBody body_ = {};
  pthread_mutex_t return_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  bool alive_ = true;
  bool has_error_ = false;
  stoker_code error_code_ = STOKER_INTERNAL;
  char error_text_[2048] = "";
};

std::int64_t NowNs();

}  // namespace stoker::client
