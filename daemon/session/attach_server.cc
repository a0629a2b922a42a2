#include "daemon/session/attach_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "config/spec.h"
#include "daemon/base/log.h"
#include "shm/fd_passing.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace stoker::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSilence = std::chrono::seconds(5);  // for a connection to say what it wants
constexpr int kOpeners = 4;
constexpr int kOpenersPerUser = kOpeners - 1;  // one is left for the others
constexpr auto kTick = std::chrono::milliseconds(200);
constexpr int kIdleTickMs = 1000;
constexpr std::size_t kBacklogPerRound = 64;

// What an epoll event is about: the session's number, and which of its descriptors.
enum class Source : std::uint64_t {
  kListener = 0,
  kBell = 1,
  kSocket = 2,
  kPidfd = 3,
  kReturns = 4
};
constexpr std::uint64_t Key(std::uint64_t session, Source source) {
  return session << 3 | static_cast<std::uint64_t>(source);
}

void Ring(int eventfd) {
  const std::uint64_t one = 1;
  while (write(eventfd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Quiet(int eventfd) {
  std::uint64_t count = 0;
  while (read(eventfd, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

// A pidfd of the process that connected: the kernel's own where it has one, else by its number.
shm::Fd PidfdOf(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return shm::Fd(fd);
  return shm::Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool SendText(int socket, shm::MessageType type, const Status& status) {
  std::vector<std::byte> buffer(shm::kMaxTextBytes + 64);
  const shm::Text text = {static_cast<std::int32_t>(status.code()), status.message()};
  const std::size_t bytes = shm::Encode(type, text, buffer.data(), buffer.size());
  return bytes > 0 && shm::SendMessage(socket, buffer.data(), bytes, nullptr, 0);
}

// What the daemon says on a connection beside the answer to its Attach. A worker may have an error
// to tell before that answer is sent; the client must read the answer first.
class Speaker {
 public:
  explicit Speaker(int socket) : socket_(socket) {}

  void Say(shm::MessageType type, const Status& status) {
    std::lock_guard lock(mutex_);
    if (answered_) {
      SendText(socket_, type, status);
    } else {
      waiting_.emplace_back(type, status);
    }
  }
  // The answer has been sent.
  void Answered() {
    std::lock_guard lock(mutex_);
    answered_ = true;
    for (const auto& [type, status] : waiting_) SendText(socket_, type, status);
    waiting_.clear();
  }

 private:
  const int socket_;
  std::mutex mutex_;
  bool answered_ = false;
  std::vector<std::pair<shm::MessageType, Status>> waiting_;
};

}  // namespace

// One connection. What an opener needs is set before it is queued and not touched until its answer.
struct AttachServer::Session {
  enum class State { kConnected, kOpening, kAttached };

  std::uint64_t id = 0;
  State state = State::kConnected;
  shm::Fd socket;
  std::shared_ptr<Speaker> speaker;
  stream::Peer peer;
  Clock::time_point connected_at;
  shm::AttachBody ask = {};
  std::string name;
  std::string token;
  std::string spec;
  std::atomic<bool> gone{false};  // the peer left while its stream was being opened
  std::shared_ptr<stream::Stream> stream;
  std::shared_ptr<stream::Consumer> consumer;
  std::shared_ptr<stream::Lane> lane;
};

struct AttachServer::Answer {
  SessionPtr session;
  Status status;
  stream::Attachment attachment;
  std::shared_ptr<stream::Stream> stream;
  std::shared_ptr<stream::Consumer> consumer;
};

AttachServer::AttachServer(shm::Fd listener, PeerCheck check, stream::StreamManager* streams,
                           stream::WorkerPool* pool, const v1::Limits& limits)
    : listener_(std::move(listener)),
      check_(std::move(check)),
      streams_(streams),
      pool_(pool),
      limits_(limits),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      message_(shm::kMaxMessageBytes) {}

AttachServer::~AttachServer() { Stop(); }

bool AttachServer::Watch(int fd, std::uint64_t key) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = key;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Status AttachServer::Start() {
  if (!epoll_.valid() || !bell_.valid() || !Watch(listener_.get(), Key(0, Source::kListener)) ||
      !Watch(bell_.get(), Key(0, Source::kBell))) {
    return Status(Code::kInternal, std::string("attach server: ") + std::strerror(errno));
  }
  ticked_.reserve(limits_.streams());
  watcher_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "attach");
    Run(stop);
  });
  for (int i = 0; i < kOpeners; ++i) {
    openers_.emplace_back([this](std::stop_token stop) {
      pthread_setname_np(pthread_self(), "opener");
      RunOpener(stop);
    });
  }
  return Status();
}

void AttachServer::Stop() {
  watcher_.request_stop();
  for (auto& opener : openers_) opener.request_stop();
  asked_.notify_all();
  if (bell_.valid()) Ring(bell_.get());
  openers_.clear();
  if (watcher_.joinable()) watcher_.join();
}

void AttachServer::Run(std::stop_token stop) {
  epoll_event events[64];
  while (!stop.stop_requested()) {
    const int tick_ms = sessions_.empty() ? kIdleTickMs : static_cast<int>(kTick.count());
    const int n = epoll_wait(epoll_.get(), events, 64, tick_ms);
    for (int i = 0; i < n; ++i) {
      const std::uint64_t id = events[i].data.u64 >> 3;
      const auto source = static_cast<Source>(events[i].data.u64 & 7);
      if (source == Source::kListener) {
        Accept();
        continue;
      }
      if (source == Source::kBell) {
        Quiet(bell_.get());
        OnAnswers();
        EndDisgraced();
        continue;
      }
      const auto it = sessions_.find(id);
      if (it == sessions_.end()) continue;  // ended by an earlier event of this round
      const SessionPtr session = it->second;
      switch (source) {
        case Source::kSocket:
          OnSocket(session);
          break;
        case Source::kPidfd:
          End(session);
          break;
        case Source::kReturns:
          Quiet(session->consumer->mailbox().event_fd());
          session->lane->DrainReturns();
          pool_->Wake();
          break;
        default:
          break;
      }
    }
    if (Clock::now() - ticked_at_ < kTick) continue;
    ticked_at_ = Clock::now();
    EndSilent();
    TickStreams();
  }
  const auto sessions = sessions_;
  for (const auto& [id, session] : sessions) End(session);
}

void AttachServer::EndSilent() {
  std::vector<SessionPtr> silent;
  for (const auto& [id, session] : sessions_) {
    if (session->state == Session::State::kConnected &&
        ticked_at_ - session->connected_at > kSilence) {
      silent.push_back(session);
    }
  }
  for (const auto& session : silent) {
    Refuse(session, Status(Code::kDeadlineExceeded, "no Attach message came within 5 s"));
  }
}

void AttachServer::TickStreams() {
  ticked_.clear();
  for (const auto& [id, session] : sessions_) {
    stream::Stream* const stream = session->stream.get();
    if (stream == nullptr || std::find(ticked_.begin(), ticked_.end(), stream) != ticked_.end()) {
      continue;
    }
    ticked_.push_back(stream);
    stream->Tick();
  }
}

void AttachServer::Accept() {
  for (std::size_t i = 0; i < kBacklogPerRound; ++i) {
    shm::Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE) {
        LogLimited(LogLevel::kError, "attach",
                   "no descriptor for another client; raise LimitNOFILE");
      }
      return;
    }
    auto session = std::make_shared<Session>();
    session->id = next_id_++;
    session->connected_at = Clock::now();
    session->socket = std::move(socket);
    Status allowed = check_.Allow(session->socket.get());
    if (allowed.ok()) {
      auto peer = PeerCheck::PeerOf(session->socket.get());
      if (peer.ok()) session->peer = std::move(*peer);
      allowed = peer.ok() ? CheckLimits(*session) : peer.status();
    }
    if (!allowed.ok()) {
      LogLimited(LogLevel::kWarning, "attach-refused", allowed.message());
      SendText(session->socket.get(), shm::MessageType::kRefused, allowed);
      continue;
    }
    if (!Watch(session->socket.get(), Key(session->id, Source::kSocket))) continue;
    sessions_[session->id] = session;
  }
}

Status AttachServer::CheckLimits(const Session& session) const {
  if (sessions_.size() >= limits_.consumers()) {
    return Status(
        Code::kResourceExhausted,
        "limits.consumers: " + std::to_string(limits_.consumers()) + " clients are connected");
  }
  std::uint32_t of_user = 0;
  for (const auto& [id, other] : sessions_) of_user += other->peer.uid == session.peer.uid ? 1 : 0;
  if (of_user < limits_.consumers_per_user()) return Status();
  return Status(Code::kResourceExhausted, "limits.consumers_per_user: uid " +
                                              std::to_string(session.peer.uid) + " has " +
                                              std::to_string(of_user) + " clients connected");
}

void AttachServer::OnSocket(const SessionPtr& session) {
  auto& buffer = message_;
  shm::Received received;
  const auto result =
      shm::ReceiveMessage(session->socket.get(), buffer.data(), buffer.size(), &received);
  if (result == shm::ReceiveResult::kAgain) return;
  if (result == shm::ReceiveResult::kEnd || result == shm::ReceiveResult::kError) {
    return End(session);
  }
  shm::MessageType type;
  std::uint16_t version = 0;
  const char* wrong = result == shm::ReceiveResult::kBroken
                          ? "the message, or its descriptors, are longer than any of ours"
                          : shm::DecodeHeader(buffer.data(), received.bytes, &type, &version);
  if (wrong == nullptr && received.fd_count != 0)
    wrong = "a client's message carries no descriptors";
  if (wrong == nullptr && type == shm::MessageType::kDetach) return End(session);
  if (wrong == nullptr && type == shm::MessageType::kOldArenaGone &&
      session->state == Session::State::kAttached) {
    return session->stream->OldArenaGone(session->id);
  }
  shm::Attach attach;
  if (wrong == nullptr &&
      (type != shm::MessageType::kAttach || session->state != Session::State::kConnected)) {
    wrong = "the message does not belong here";
  }
  if (wrong == nullptr && !shm::Decode(buffer.data(), received.bytes, &attach)) {
    wrong = "the Attach message's lengths do not add up";
  }
  if (wrong != nullptr) {
    return Refuse(session, Status(Code::kInvalidArgument,
                                  std::string("attach protocol: ") + wrong + " (version " +
                                      std::to_string(version) + ", spoken here: " +
                                      std::to_string(shm::kOldestProtocolVersion) + " to " +
                                      std::to_string(shm::kProtocolVersion) + ")"));
  }
  OnAttach(session, attach);
}

void AttachServer::OnAttach(const SessionPtr& session, const shm::Attach& attach) {
  if (attach.spec.size() > limits_.spec_bytes()) {
    return Refuse(session,
                  Status(Code::kResourceExhausted,
                         "limits.spec_bytes: the spec has " + std::to_string(attach.spec.size()) +
                             " bytes, the limit is " + std::to_string(limits_.spec_bytes())));
  }
  session->ask = attach.body;
  session->name = attach.name;
  session->peer.host = attach.host;
  session->token = attach.token;
  session->spec = attach.spec;
  session->state = Session::State::kOpening;
  {
    std::lock_guard lock(mutex_);
    to_open_.push_back(session);
  }
  asked_.notify_one();
}

void AttachServer::RunOpener(std::stop_token stop) {
  while (true) {
    SessionPtr session;
    {
      std::unique_lock lock(mutex_);
      if (!asked_.wait(lock, stop, [&] { return (session = NextToOpenLocked()) != nullptr; })) {
        return;
      }
    }
    const uid_t uid = session->peer.uid;
    Answer answer = Open(session.get());
    answer.session = std::move(session);
    {
      std::lock_guard lock(mutex_);
      if (--opening_[uid] == 0) opening_.erase(uid);
      asked_.notify_all();
      answers_.push_back(std::move(answer));
    }
    Ring(bell_.get());
  }
}

// In the order of asking, but a user whose streams take long to open does not keep all openers.
AttachServer::SessionPtr AttachServer::NextToOpenLocked() {
  for (auto it = to_open_.begin(); it != to_open_.end(); ++it) {
    int& opening = opening_[(*it)->peer.uid];
    if (opening >= kOpenersPerUser) continue;
    ++opening;
    SessionPtr session = std::move(*it);
    to_open_.erase(it);
    return session;
  }
  return nullptr;
}

AttachServer::Answer AttachServer::Open(Session* session) {
  Answer answer;
  stream::AttachAsk ask;
  ask.rank = session->ask.rank;
  ask.world_size = session->ask.world_size;
  ask.local_world_size = session->ask.local_world_size;
  ask.old_arena_bytes = session->ask.old_arena_bytes;
  ask.next_epoch = session->ask.join == static_cast<std::uint32_t>(shm::JoinAt::kNextEpoch);
  ask.start = session->ask.start == static_cast<std::uint32_t>(shm::StartAt::kBegin)
                  ? stream::AttachAsk::Start::kBegin
              : session->ask.start == static_cast<std::uint32_t>(shm::StartAt::kContinue)
                  ? stream::AttachAsk::Start::kContinue
                  : stream::AttachAsk::Start::kDefault;
  auto attached = OpenAttachment(session, ask, &answer.consumer, &answer.stream);
  if (attached.ok()) {
    answer.attachment = std::move(*attached);
  } else {
    answer.status = attached.status();
  }
  return answer;
}

Result<stream::Attachment> AttachServer::OpenAttachment(Session* session, stream::AttachAsk ask,
                                                        std::shared_ptr<stream::Consumer>* consumer,
                                                        std::shared_ptr<stream::Stream>* stream) {
  if (!session->token.empty()) {
    auto token = plan::DecodeToken(session->token);
    if (!token.ok()) return token.status();
    ask.token = *token;
  }
  if (session->spec.empty()) {
    auto found = streams_->Find(session->name);
    if (!found.ok()) return found.status();
    *stream = std::move(*found);
  } else {
    auto spec = config::ParseSpec(session->spec, "spec");
    if (!spec.ok()) return spec.status();
    if (!session->name.empty()) spec->set_name(session->name);
    bool created = false;
    auto opened = streams_->Open(std::move(*spec), session->peer.uid, true, &created);
    if (!opened.ok()) return opened.status();
    *stream = std::move(*opened);
  }
  auto mailbox = shm::DaemonMailbox::Make(session->id);
  if (!mailbox.valid()) {
    return Status(Code::kResourceExhausted, std::string("a mailbox: ") + std::strerror(errno));
  }
  session->speaker = std::make_shared<Speaker>(session->socket.get());
  const std::uint64_t id = session->id;
  *consumer = std::make_shared<stream::Consumer>(
      id, session->peer, PidfdOf(session->socket.get(), session->peer.pid), std::move(mailbox),
      [speaker = session->speaker](bool closing, const Status& status) {
        speaker->Say(closing ? shm::MessageType::kClosing : shm::MessageType::kError, status);
      },
      [this, id](const std::string& why) {
        LogLimited(LogLevel::kWarning, "disgraced", "a consumer is cut off: " + why);
        std::lock_guard lock(mutex_);
        disgraced_.push_back(id);
        Ring(bell_.get());
      });
  return (*stream)->Attach(ask, *consumer);
}

void AttachServer::OnAnswers() {
  std::vector<Answer> answers;
  {
    std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (Answer& answer : answers) {
    const SessionPtr session = answer.session;
    if (!answer.status.ok()) {
      if (!session->gone) Refuse(session, answer.status);
      if (answer.stream != nullptr) streams_->ConsumerLeft(answer.stream);
      continue;
    }
    session->stream = answer.stream;
    session->consumer = answer.consumer;
    session->lane = answer.attachment.lane;
    if (session->gone || !Welcome(session, &answer)) {
      session->stream->Detach(session->id);
      streams_->ConsumerLeft(session->stream);
      session->stream = nullptr;
      if (!session->gone) End(session);
      continue;
    }
    session->state = Session::State::kAttached;
  }
}

bool AttachServer::Welcome(const SessionPtr& session, Answer* answer) {
  const stream::Attachment& a = answer->attachment;
  const v1::StreamSpec& spec = answer->stream->spec();
  shm::Attached attached;
  attached.name = spec.name();
  shm::AttachedBody& body = attached.body;
  body.consumer = session->id;
  body.slot_bytes = a.slot_bytes;
  body.slots = a.slots;
  body.arena_bytes = a.slot_bytes * a.slots;
  body.exclusive = a.exclusive ? 1 : 0;
  body.epoch = a.from.epoch;
  body.row = a.from.row;
  body.steps_per_epoch = a.steps_per_epoch;
  body.rows_per_epoch = a.rows_per_epoch;
  body.repeat = spec.order().repeat();
  body.plan_id = a.plan_id;
  body.seed = a.identity.seed;
  body.paths_hash = a.identity.paths_hash;
  body.data_hash = a.identity.data_hash;
  body.batch = a.identity.batch;
  body.world_size = a.identity.world;
  body.source_hash = a.identity.source_hash;
  body.order_hash = a.identity.order_hash;
  body.tensors_hash = a.identity.tensors_hash;
  body.batch_hash = a.identity.batch_hash;
  body.delivery_hash = a.identity.delivery_hash;

  const int pidfd = session->consumer->pidfd();
  if (pidfd >= 0 && !Watch(pidfd, Key(session->id, Source::kPidfd))) return false;
  auto& mailbox = session->consumer->mailbox();
  if (!Watch(mailbox.event_fd(), Key(session->id, Source::kReturns))) return false;
  std::byte buffer[1024];
  const std::size_t bytes = shm::Encode(attached, buffer, sizeof(buffer));
  const int fds[shm::kAttachedFds] = {a.arena.get(), mailbox.memory_fd(), mailbox.event_fd()};
  if (bytes == 0 ||
      !shm::SendMessage(session->socket.get(), buffer, bytes, fds, shm::kAttachedFds)) {
    return false;
  }
  session->speaker->Answered();
  return true;
}

void AttachServer::Refuse(const SessionPtr& session, const Status& status) {
  SendText(session->socket.get(), shm::MessageType::kRefused, status);
  End(session);
}

// Idempotent: socket and pidfd may both tell.
void AttachServer::End(const SessionPtr& session) {
  if (sessions_.erase(session->id) == 0) return;
  session->gone = true;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session->socket.get(), nullptr);
  if (session->consumer != nullptr && session->consumer->pidfd() >= 0) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session->consumer->pidfd(), nullptr);
  }
  if (session->consumer != nullptr && session->stream != nullptr) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session->consumer->mailbox().event_fd(), nullptr);
    session->stream->Detach(session->id);
    streams_->ConsumerLeft(session->stream);
    pool_->Wake();
  }
  shutdown(session->socket.get(), SHUT_RDWR);
}

void AttachServer::EndDisgraced() {
  std::vector<std::uint64_t> disgraced;
  {
    std::lock_guard lock(mutex_);
    disgraced.swap(disgraced_);
  }
  for (const std::uint64_t id : disgraced) {
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) continue;
    const SessionPtr session = it->second;
    SendText(session->socket.get(), shm::MessageType::kClosing,
             Status(Code::kFailedPrecondition, "this client broke the mailbox protocol"));
    End(session);
  }
}

}  // namespace stoker::session
