// What stands behind the handles of the C ABI.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "client/include/stoker/stoker.h"
#include "client/src/link.h"
#include "client/src/token.h"
#include "shm/batch_view.h"

namespace stoker::client {

// The daemon is away: since when, and when to look for it again. Kept between calls, so that many
// short ones wait no longer than one long one.
struct Outage {
  std::int64_t since_ns = 0;  // 0: it is not
  std::int64_t retry_ns = 0;
  std::int64_t back_off_ns = 0;
};

}  // namespace stoker::client

// Counted: the user's handle and each batch hold it.
struct stoker_stream {
  std::atomic<std::uint32_t> references{1};
  pid_t owner = 0;  // the process that attached; a fork is another one
  stoker::client::Link* link = nullptr;
  stoker::client::Link* asking = nullptr;  // an attach that is not answered yet
  stoker_attach_options options = {};      // strings below
  char* socket_path = nullptr;
  char* name = nullptr;
  char* spec_text = nullptr;
  stoker::client::TokenFields token;  // position after the last batch taken
  bool has_position = false;          // it has been told where it is
  bool in_epoch = false;              // a batch of `open_epoch` was taken and its end was not told
  std::uint64_t open_epoch = 0;
  bool ended = false;
  stoker::client::Outage outage;
  std::atomic<std::uint64_t> old_bytes{0};  // of earlier arenas that batches still hold
  bool told_old_bytes = false;              // the daemon counts them
  std::uint64_t waited_ns = 0;
  std::uint64_t batches = 0;
  std::uint64_t rows = 0;  // real ones
  std::uint64_t reconnects = 0;
  stoker_stream* next = nullptr;  // list of live streams, for fork
};

struct stoker_batch {
  std::atomic<std::uint32_t> references{1};
  stoker_stream* stream = nullptr;
  stoker::client::Link* link = nullptr;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  stoker::shm::BatchView view;
  stoker::client::TokenFields token;  // position after this batch
};

namespace stoker::client {

void ReleaseStream(stoker_stream* stream);
// An earlier link's memory went away.
void OldArenaGone(stoker_stream* stream, std::uint64_t bytes);
// Whether this process is the one that attached.
bool OwnedHere(const stoker_stream* stream);
stoker_code WriteToken(const TokenFields& fields, char* buffer, std::size_t capacity);

}  // namespace stoker::client
