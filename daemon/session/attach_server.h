// AttachServer: attach.sock: who attaches, and noticing at once when one is gone.
//
//   connected ─▶ (Attach message) opening ─▶ attached ─▶ gone
//       └─ silent for 5 s, broken or refused ─▶ gone
//
// One thread watches the listening socket, every connection, every attached peer's pidfd and every
// mailbox's eventfd. Opening a stream reads files, so it is done by a few opener threads that hand
// their answers back. A trainer's death is seen by its socket and by its pidfd: a killed trainer
// whose forked children live on gives no end-of-file.
//
// Ownership: borrows the streams and the pool. Thread-safety: Start() and Stop() from one thread.
// Blocking: Stop() waits for the openers, whose work StreamManager::Shutdown() has ended before.
// Trust: messages are bounded and must carry the descriptors their type says (none from a client);
//   anything else ends the connection.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/session/peer_check.h"
#include "daemon/stream/stream_manager.h"
#include "daemon/stream/worker_pool.h"
#include "shm/attach_protocol.h"
#include "shm/fd.h"
#include "stoker/v1/daemon.pb.h"

namespace stoker::session {

class AttachServer {
 public:
  AttachServer(shm::Fd listener, PeerCheck check, stream::StreamManager* streams,
               stream::WorkerPool* pool, const v1::Limits& limits);
  ~AttachServer();

  Status Start();
  // Tells attached clients, ends all sessions and joins the threads.
  void Stop();

 private:
  struct Session;
  struct Answer;  // an opener's outcome for a session
  using SessionPtr = std::shared_ptr<Session>;

  void Run(std::stop_token stop);
  void RunOpener(std::stop_token stop);

  void Accept();
  void OnSocket(const SessionPtr& session);
  void OnAttach(const SessionPtr& session, const shm::Attach& attach);
  Answer Open(Session* session);
  Result<stream::Attachment> OpenAttachment(Session* session, stream::AttachAsk ask,
                                            std::shared_ptr<stream::Consumer>* consumer,
                                            std::shared_ptr<stream::Stream>* stream);
  void OnAnswers();
  bool Welcome(const SessionPtr& session, Answer* answer);
  void Refuse(const SessionPtr& session, const Status& status);
  void End(const SessionPtr& session);
  void EndDisgraced();
  bool Watch(int fd, std::uint64_t key);
  Status CheckLimits(const Session& session) const;
  void EndSilent();
  void TickStreams();
  SessionPtr NextToOpenLocked();

  const shm::Fd listener_;
  const PeerCheck check_;
  stream::StreamManager* const streams_;
  stream::WorkerPool* const pool_;
  const v1::Limits limits_;
  shm::Fd epoll_;
  shm::Fd bell_;                                  // eventfd: answers or disgraced consumers wait
  std::map<std::uint64_t, SessionPtr> sessions_;  // the watching thread's alone
  std::uint64_t next_id_ = 1;
  std::vector<std::byte> message_;  // the watching thread's alone
  std::chrono::steady_clock::time_point ticked_at_{};
  std::vector<stream::Stream*> ticked_;  // kept for its room alone

  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::deque<SessionPtr> to_open_;
  std::map<uid_t, int> opening_;  // by user: attaches that openers work on
  std::vector<Answer> answers_;
  std::vector<std::uint64_t> disgraced_;

  std::jthread watcher_;
  std::vector<std::jthread> openers_;
};

}  // namespace stoker::session
