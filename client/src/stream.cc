// Streams: attach, next, reconnect, tokens, fork.
#include "client/src/stream.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "client/src/error.h"

namespace stoker::client {
namespace {

constexpr std::int64_t kSecond = 1000000000;
constexpr std::int64_t kDefaultAttachNs = 600 * kSecond;
constexpr std::int64_t kDefaultReconnectNs = 120 * kSecond;
constexpr std::int64_t kSpinNs = 20000;           // looked at the ring for so long before sleeping
constexpr std::int64_t kSliceNs = kSecond / 10;   // sleeps are cut, to see a dead daemon
constexpr std::int64_t kTooManyHeldNs = kSecond;  // how long a slot may still come back
constexpr std::int64_t kFirstBackOffNs = kSecond / 100;
constexpr std::int64_t kLongestBackOffNs = kSecond;
constexpr std::int64_t kRankTakenNs = 5 * kSecond;  // our own old attachment may still be dying

// Live streams, so that a forked child can let go of the sockets that it inherited.
pthread_mutex_t g_streams_mutex = PTHREAD_MUTEX_INITIALIZER;
stoker_stream* g_streams = nullptr;
pthread_once_t g_fork_once = PTHREAD_ONCE_INIT;

void LockBeforeFork() { pthread_mutex_lock(&g_streams_mutex); }
void UnlockInParent() { pthread_mutex_unlock(&g_streams_mutex); }
void AbandonInChild() {
  for (stoker_stream* s = g_streams; s != nullptr; s = s->next) {
    if (s->link != nullptr) s->link->Abandon();
    if (s->asking != nullptr) s->asking->Abandon();
  }
  pthread_mutex_unlock(&g_streams_mutex);
}
void WatchForks() { pthread_atfork(LockBeforeFork, UnlockInParent, AbandonInChild); }

void Enlist(stoker_stream* stream) {
  pthread_mutex_lock(&g_streams_mutex);
  stream->next = g_streams;
  g_streams = stream;
  pthread_mutex_unlock(&g_streams_mutex);
}

void Delist(stoker_stream* stream) {
  pthread_mutex_lock(&g_streams_mutex);
  for (stoker_stream** at = &g_streams; *at != nullptr; at = &(*at)->next) {
    if (*at == stream) {
      *at = stream->next;
      break;
    }
  }
  pthread_mutex_unlock(&g_streams_mutex);
}

// Puts `link` in its place and lets go of what was there. Batches keep an old link's memory; its
// attachment has ended.
void SetLink(Link** place, Link* link) {
  pthread_mutex_lock(&g_streams_mutex);
  Link* old = *place;
  *place = link;
  if (old != nullptr) old->End();
  pthread_mutex_unlock(&g_streams_mutex);
  if (old != nullptr) old->Release();
}

// Ends an attachment that is of no use, so that the daemon, if it lives, does not take its own
// client for another that holds the rank.
void EndLink(stoker_stream* stream) {
  pthread_mutex_lock(&g_streams_mutex);
  stream->link->End();
  pthread_mutex_unlock(&g_streams_mutex);
}

// The asking link has its answer: it becomes the stream's link.
void TakeAnswered(stoker_stream* stream) {
  pthread_mutex_lock(&g_streams_mutex);
  Link* answered = stream->asking;
  stream->asking = nullptr;
  Link* old = stream->link;
  stream->link = answered;
  if (old != nullptr) {
    old->End();
    old->Outlived();
    stream->old_bytes.fetch_add(old->arena_bytes(), std::memory_order_relaxed);
  }
  pthread_mutex_unlock(&g_streams_mutex);
  if (old != nullptr) OldArenaGone(stream, old->Release());
}

char* Copy(const char* text) { return text == nullptr ? nullptr : strdup(text); }

// $STOKER_RUNTIME_DIR, or the first of the usual folders that has the socket.
void FindSocket(char* out, std::size_t capacity) {
  if (const char* dir = std::getenv("STOKER_RUNTIME_DIR"); dir != nullptr && dir[0] != '\0') {
    std::snprintf(out, capacity, "%s/attach.sock", dir);
    return;
  }
  std::snprintf(out, capacity, "/run/stoker/attach.sock");
  if (access(out, F_OK) == 0) return;
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir != nullptr && dir[0] != '\0') {
    std::snprintf(out, capacity, "%s/stoker/attach.sock", dir);
    if (access(out, F_OK) == 0) return;
  }
  std::snprintf(out, capacity, "/tmp/stoker-%u/attach.sock", static_cast<unsigned>(getuid()));
}

std::int64_t Deadline(std::int64_t timeout_ns) {
  return timeout_ns < 0 || timeout_ns > INT64_MAX / 2 ? INT64_MAX : NowNs() + timeout_ns;
}

void SleepUntil(std::int64_t time_ns) {
  const std::int64_t left = time_ns - NowNs();
  if (left <= 0) return;
  const timespec pause = {left / kSecond, left % kSecond};
  nanosleep(&pause, nullptr);
}

// Lets the core breathe between two looks at the ring.
void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks to attach, at the stream's own position if it has one.
stoker_code Ask(stoker_stream* stream, std::int64_t deadline_ns) {
  const stoker_attach_options& o = stream->options;
  shm::Attach attach;
  attach.body.rank = o.rank;
  attach.body.world_size = o.world_size;
  attach.body.local_world_size = o.local_world_size;
  attach.body.start = static_cast<std::uint32_t>(o.start);
  // Who comes back goes on where it was: waiting for the next epoch was for the first time.
  const bool next_epoch = (o.flags & STOKER_JOIN_NEXT_EPOCH) != 0 && !stream->has_position;
  attach.body.join =
      static_cast<std::uint32_t>(next_epoch ? shm::JoinAt::kNextEpoch : shm::JoinAt::kNow);
  attach.body.pid = getpid();
  attach.body.timeout_ms = deadline_ns == INT64_MAX ? INT64_MAX : (deadline_ns - NowNs()) / 1000000;
  attach.body.old_arena_bytes = stream->old_bytes.load(std::memory_order_relaxed);
  if (stream->link != nullptr && stream->link->held() > 0) {
    attach.body.old_arena_bytes += stream->link->arena_bytes();
  }
  stream->told_old_bytes = attach.body.old_arena_bytes > 0;
  char host[shm::kMaxHostBytes] = "";
  gethostname(host, sizeof(host) - 1);
  attach.host = host;
  char token[kTokenCapacity];
  if (stream->has_position) {
    attach.token = {token, EncodeToken(stream->token, token)};
  } else if (o.token != nullptr) {
    attach.token = o.token;
  }
  if (stream->name != nullptr) attach.name = stream->name;
  if (stream->spec_text != nullptr) attach.spec = stream->spec_text;

  Link* link = nullptr;
  const stoker_code code = Link::Ask(stream->socket_path, attach, deadline_ns, &link);
  if (code == STOKER_OK) SetLink(&stream->asking, link);
  return code;
}

// One attach. Where `deadline_ns` comes before `give_up_ns` and the answer does not, the question
// stays open for the next call: opening a stream may take longer than a call may wait.
stoker_code AttachOnce(stoker_stream* stream, std::int64_t deadline_ns, std::int64_t give_up_ns) {
  if (stream->asking == nullptr) {
    if (const stoker_code code = Ask(stream, give_up_ns); code != STOKER_OK) return code;
  }
  const stoker_code code = stream->asking->Await(deadline_ns);
  if (code == STOKER_DEADLINE_EXCEEDED && deadline_ns < give_up_ns) return code;
  if (code != STOKER_OK) {
    SetLink(&stream->asking, nullptr);
    return code;
  }
  const shm::AttachedBody& b = stream->asking->body();
  TokenFields fields;
  fields.epoch = b.epoch;
  fields.row = b.row;
  fields.seed = b.seed;
  fields.batch = b.batch;
  fields.world = b.world_size;
  fields.source_hash = b.source_hash;
  fields.order_hash = b.order_hash;
  fields.tensors_hash = b.tensors_hash;
  fields.batch_hash = b.batch_hash;
  fields.delivery_hash = b.delivery_hash;
  fields.paths_hash = b.paths_hash;
  fields.data_hash = b.data_hash;
  stream->token = fields;
  TakeAnswered(stream);
  return STOKER_OK;
}

// Attaches again after the daemon went away, at the client's own position.
stoker_code Reconnect(stoker_stream* stream, std::int64_t call_deadline_ns) {
  if (stream->options.reconnect_timeout_ns < 0) {
    return Fail(STOKER_UNAVAILABLE,
                "the daemon on %s is gone; attach again with the stream's token",
                stream->socket_path);
  }
  Outage& outage = stream->outage;
  if (outage.since_ns == 0) {
    outage = {NowNs(), NowNs(), kFirstBackOffNs};
    EndLink(stream);
  }
  const std::int64_t limit = stream->options.reconnect_timeout_ns == 0
                                 ? kDefaultReconnectNs
                                 : stream->options.reconnect_timeout_ns;
  const std::int64_t give_up = limit > INT64_MAX / 2 ? INT64_MAX : outage.since_ns + limit;
  while (true) {
    SleepUntil(outage.retry_ns < call_deadline_ns ? outage.retry_ns : call_deadline_ns);
    if (NowNs() >= outage.retry_ns) {
      const stoker_code code =
          AttachOnce(stream, give_up < call_deadline_ns ? give_up : call_deadline_ns, give_up);
      const std::int64_t now = NowNs();
      // A refusal for another reason than absence is final; but the daemon may not yet have seen
      // that our own old attachment ended, or may not yet have its streams again.
      const bool passing =
          code == STOKER_UNAVAILABLE || code == STOKER_DEADLINE_EXCEEDED ||
          code == STOKER_NOT_FOUND ||
          (code == STOKER_FAILED_PRECONDITION && now - outage.since_ns < kRankTakenNs);
      if (!passing || now >= give_up) {
        outage = {};
        if (code == STOKER_OK) ++stream->reconnects;
        return code == STOKER_DEADLINE_EXCEEDED ? STOKER_UNAVAILABLE : code;
      }
      if (stream->asking == nullptr) {
        const std::int64_t next = now + outage.back_off_ns;
        outage.retry_ns = next < give_up ? next : give_up;
        outage.back_off_ns *= 2;
        if (outage.back_off_ns > kLongestBackOffNs) outage.back_off_ns = kLongestBackOffNs;
      }
    }
    if (NowNs() >= call_deadline_ns) {
      return Fail(STOKER_DEADLINE_EXCEEDED, "the daemon on %s is gone; still reconnecting",
                  stream->socket_path);
    }
  }
}

stoker_code EndOfEpoch(stoker_stream* stream, std::uint64_t epoch) {
  stream->in_epoch = false;
  return Fail(STOKER_OUT_OF_RANGE, "epoch %llu has ended", static_cast<unsigned long long>(epoch));
}

// Whether the daemon died between an epoch's last batch and the word that ends it. The last epoch's
// end is told by the new attachment itself.
bool EndWasLost(const stoker_stream* stream) {
  const std::uint64_t repeat = stream->link->body().repeat;
  return stream->in_epoch && stream->token.epoch > stream->open_epoch &&
         (repeat == 0 || stream->token.epoch < repeat);
}

stoker_code TakeBatch(stoker_stream* stream, std::uint64_t word, stoker_batch** out) {
  Link* link = stream->link;
  const std::uint32_t slot = shm::SlotOfWord(word);
  const std::uint32_t generation = shm::GenerationOfWord(word);
  if (slot >= link->body().slots) {
    return Fail(STOKER_DATA_LOSS, "the daemon delivered slot %u of %u", slot, link->body().slots);
  }
  void* memory = std::malloc(sizeof(stoker_batch));
  if (memory == nullptr) return Fail(STOKER_RESOURCE_EXHAUSTED, "out of memory");
  auto* batch = new (memory) stoker_batch();
  if (const char* wrong = batch->view.Open(link->slot(slot), link->body().slot_bytes, generation)) {
    std::free(batch);
    return Fail(STOKER_DATA_LOSS, "slot %u does not hold a batch: %s", slot, wrong);
  }
  const auto& header = batch->view.header();
  stream->token.epoch = header.next_epoch;
  stream->token.row = header.next_row;
  stream->in_epoch = true;
  stream->open_epoch = header.epoch;
  ++stream->batches;
  stream->rows += header.real_rows;
  batch->stream = stream;
  batch->link = link;
  batch->slot = slot;
  batch->generation = generation;
  batch->token = stream->token;
  stream->references.fetch_add(1, std::memory_order_relaxed);
  link->Retain();
  link->Held();
  *out = batch;
  return STOKER_OK;
}

// What a delivery word means to the caller of stoker_next. STOKER_INTERNAL with `*again` set: look
// once more.
stoker_code TakeWord(stoker_stream* stream, std::uint64_t word, stoker_batch** out, bool* again) {
  switch (static_cast<shm::WordKind>(shm::KindOfWord(word))) {
    case shm::WordKind::kBatch:
      return TakeBatch(stream, word, out);
    case shm::WordKind::kEndOfEpoch:
      return EndOfEpoch(stream, shm::EpochOfWord(word));
    case shm::WordKind::kEndOfStream:
      stream->ended = true;
      return Fail(STOKER_OUT_OF_RANGE, "the last epoch, %llu, has ended",
                  static_cast<unsigned long long>(shm::EpochOfWord(word)));
    default:  // an error or a farewell: its message lies on the socket
      stream->link->ReadSocket();
      *again = true;
      return STOKER_INTERNAL;
  }
}

stoker_code Next(stoker_stream* stream, std::int64_t deadline_ns, stoker_batch** out) {
  std::int64_t full_since = 0;
  std::int64_t spin_until = NowNs() + kSpinNs;
  while (true) {
    Link* link = stream->link;
    std::uint64_t word = 0;
    const auto taken = link->mailbox().Take(&word);
    if (taken == shm::RingResult::kOk) {
      bool again = false;
      const stoker_code code = TakeWord(stream, word, out, &again);
      if (!again) return code;
      continue;
    }
    if (taken == shm::RingResult::kCorrupt) {
      return Fail(STOKER_DATA_LOSS, "the daemon's delivery ring is corrupt");
    }
    if (link->has_error()) return link->RaiseError();
    if (!link->alive()) {
      if (const stoker_code code = Reconnect(stream, deadline_ns); code != STOKER_OK) return code;
      if (EndWasLost(stream)) return EndOfEpoch(stream, stream->open_epoch);
      spin_until = NowNs() + kSpinNs;
      continue;
    }
    const std::int64_t now = NowNs();
    if (now < spin_until && now < deadline_ns) {
      Relax();
      continue;
    }
    if (now >= deadline_ns) {
      // Who never sleeps here must still hear of a dead daemon.
      link->ReadSocket();
      if (!link->alive() || link->has_error()) continue;
    }
    if (link->held() >= link->body().slots) {
      if (full_since == 0) full_since = now;
      if (now - full_since >= kTooManyHeldNs || now >= deadline_ns) {
        return Fail(STOKER_RESOURCE_EXHAUSTED,
                    "this client holds all %u slots of the stream; release a batch, or raise "
                    "delivery.slots",
                    link->body().slots);
      }
    } else {
      full_since = 0;
    }
    if (now >= deadline_ns) return Fail(STOKER_DEADLINE_EXCEEDED, "no batch yet");
    const std::int64_t left = deadline_ns - now;
    link->mailbox().Wait(left < kSliceNs ? left : kSliceNs);
    link->ReadSocket();
  }
}

}  // namespace

void OldArenaGone(stoker_stream* stream, std::uint64_t bytes) {
  if (bytes == 0 || !OwnedHere(stream)) return;
  pthread_mutex_lock(&g_streams_mutex);
  const std::uint64_t before = stream->old_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  if (before == bytes && stream->told_old_bytes && stream->link != nullptr) {
    stream->told_old_bytes = false;
    stream->link->SayOldArenaGone();
  }
  pthread_mutex_unlock(&g_streams_mutex);
}

bool OwnedHere(const stoker_stream* stream) { return stream->owner == getpid(); }

void ReleaseStream(stoker_stream* stream) {
  if (stream->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::free(stream->socket_path);
  std::free(stream->name);
  std::free(stream->spec_text);
  stream->~stoker_stream();
  std::free(stream);
}

stoker_code WriteToken(const TokenFields& fields, char* buffer, std::size_t capacity) {
  char token[kTokenCapacity];
  const std::size_t bytes = EncodeToken(fields, token) + 1;
  if (buffer == nullptr || capacity < bytes) {
    return Fail(STOKER_INVALID_ARGUMENT, "a token needs a buffer of %zu bytes", bytes);
  }
  std::memcpy(buffer, token, bytes);
  return STOKER_OK;
}

}  // namespace stoker::client

using stoker::client::Fail;

extern "C" {

stoker_code stoker_attach(const stoker_attach_options* given, stoker_stream** out) {
  if (given == nullptr || out == nullptr || given->struct_bytes == 0) {
    return Fail(STOKER_INVALID_ARGUMENT,
                "stoker_attach: options and out must not be NULL, and "
                "options.struct_bytes must be set");
  }
  stoker_attach_options options = {};
  std::memcpy(&options, given,
              given->struct_bytes < sizeof(options) ? given->struct_bytes : sizeof(options));
  if (options.stream_name == nullptr && options.spec_text == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_attach: give stream_name or spec_text");
  }
  if (options.world_size == 0) options.world_size = 1;
  if (options.local_world_size == 0) options.local_world_size = options.world_size;
  pthread_once(&stoker::client::g_fork_once, stoker::client::WatchForks);

  void* memory = std::malloc(sizeof(stoker_stream));
  if (memory == nullptr) return Fail(STOKER_RESOURCE_EXHAUSTED, "out of memory");
  auto* stream = new (memory) stoker_stream();
  stream->owner = getpid();
  stream->options = options;
  char path[4096];
  if (options.socket_path == nullptr) stoker::client::FindSocket(path, sizeof(path));
  stream->socket_path =
      stoker::client::Copy(options.socket_path == nullptr ? path : options.socket_path);
  stream->name = stoker::client::Copy(options.stream_name);
  stream->spec_text = stoker::client::Copy(options.spec_text);
  const std::int64_t timeout =
      options.timeout_ns == 0 ? stoker::client::kDefaultAttachNs : options.timeout_ns;
  const std::int64_t deadline = stoker::client::Deadline(timeout);
  stoker::client::Enlist(stream);
  const stoker_code code = stoker::client::AttachOnce(stream, deadline, deadline);
  stream->options.token = nullptr;  // the caller's, and used up
  if (code != STOKER_OK) {
    stoker::client::Delist(stream);
    stoker::client::ReleaseStream(stream);
    return code;
  }
  // From here on the position is the client's own, whatever the daemon would choose.
  stream->has_position = true;
  *out = stream;
  return STOKER_OK;
}

stoker_code stoker_next(stoker_stream* stream, int64_t timeout_ns, stoker_batch** out) {
  if (stream == nullptr || out == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_next: NULL");
  }
  if (!stoker::client::OwnedHere(stream)) {
    return Fail(STOKER_FAILED_PRECONDITION,
                "this stream was attached by pid %d and this is a fork of it; attach anew here",
                static_cast<int>(stream->owner));
  }
  if (stream->ended) return Fail(STOKER_OUT_OF_RANGE, "the last epoch has ended");
  const std::int64_t began = stoker::client::NowNs();
  const stoker_code code = stoker::client::Next(stream, stoker::client::Deadline(timeout_ns), out);
  stream->waited_ns += static_cast<std::uint64_t>(stoker::client::NowNs() - began);
  return code;
}

stoker_code stoker_stream_token(stoker_stream* stream, char* buffer, size_t capacity) {
  if (stream == nullptr) return Fail(STOKER_INVALID_ARGUMENT, "stoker_stream_token: NULL");
  return stoker::client::WriteToken(stream->token, buffer, capacity);
}

stoker_code stoker_stream_get_info(stoker_stream* stream, stoker_stream_info* out) {
  if (stream == nullptr || out == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_stream_get_info: NULL");
  }
  const auto& body = stream->link->body();
  stoker_stream_info info = {};
  info.struct_bytes = out->struct_bytes;
  info.rank = stream->options.rank;
  info.world_size = stream->options.world_size;
  info.slots = body.slots;
  info.exclusive = body.exclusive;
  info.ended = stream->ended ? 1 : 0;
  info.steps_per_epoch = body.steps_per_epoch;
  info.rows_per_epoch = body.rows_per_epoch;
  info.repeat = body.repeat;
  info.seed = body.seed;
  info.plan_id = body.plan_id;
  info.epoch = stream->token.epoch;
  info.row = stream->token.row;
  info.waited_ns = stream->waited_ns;
  info.batches = stream->batches;
  info.reconnects = stream->reconnects;
  info.name = stream->name == nullptr ? "" : stream->name;
  info.rows = stream->rows;
  info.ready = stream->link->mailbox().Ready();
  const std::size_t bytes = out->struct_bytes < sizeof(info) ? out->struct_bytes : sizeof(info);
  std::memcpy(out, &info, bytes);
  return STOKER_OK;
}

void stoker_stream_close(stoker_stream* stream) {
  if (stream == nullptr) return;
  stoker::client::Delist(stream);
  // The daemon sees the socket's end; batches keep the memory.
  stoker::client::SetLink(&stream->asking, nullptr);
  stoker::client::SetLink(&stream->link, nullptr);
  stoker::client::ReleaseStream(stream);
}

}  // extern "C"
