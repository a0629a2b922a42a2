// Stream: one served dataset: its spec, data, plan and lanes.
//
//   made ─▶ Open() ─▶ ready ─▶ Close()        Open() may fail; then the stream is thrown away
//
// A SHARDED stream makes a lane, with an arena of its own, for each rank that attaches and ends
// it when the rank goes; a BROADCAST stream has one lane while it has consumers. Where a lane
// begins follows the rules of docs/design/delivery.md.
//
// Ownership: shared by the manager, the sessions and its own lanes, which Close() takes from it:
//   whoever opened a stream closes it.
// Thread-safety: any thread. Blocking: Open() and Explain() read the shards; Attach() reserves
//   memory. Errors: kInvalidArgument fix the spec; kFailedPrecondition who holds what, or which
//   part of a token differs; kResourceExhausted which limit; kDataLoss what is damaged.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "daemon/base/status.h"
#include "daemon/plan/token.h"
#include "daemon/state/lane_journal.h"
#include "daemon/state/state_store.h"
#include "daemon/stream/budget.h"
#include "daemon/stream/lane.h"
#include "daemon/stream/user_quota.h"
#include "daemon/stream/worker_pool.h"
#include "stoker/v1/control.pb.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::stream {

// What streams share. Outlives them.
struct Environment {
  Budget* budget = nullptr;
  WorkerPool* pool = nullptr;
  std::string cache_dir;
  std::vector<std::string> data_roots;
  UserQuota* quota = nullptr;          // nullptr: no limits a user
  state::StateStore* state = nullptr;  // nullptr: nothing is kept over a restart
};

struct AttachAsk {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_world_size = 1;
  std::optional<plan::Token> token;
  enum class Start { kDefault, kBegin, kContinue } start = Start::kDefault;
  std::uint64_t old_arena_bytes = 0;  // of an earlier lane, still mapped by the client
  bool next_epoch = false;            // BROADCAST: join at the next epoch's start
};

struct Attachment {
  std::shared_ptr<Lane> lane;
  shm::Fd arena;
  bool exclusive = true;
  std::uint32_t slots = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t steps_per_epoch = 0;
  Position from;
  plan::Token identity;  // what the client's tokens carry, but for the position
  std::uint64_t rows_per_epoch = 0;
  std::uint64_t plan_id = 0;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // `spec` has its defaults filled in and is valid. `opener` is the client that named the files.
  Stream(v1::StreamSpec spec, uid_t opener, bool by_attach, Environment* environment);

  // With `stored` the stream goes on as an earlier daemon kept it: its seed, its shards, where its
  // lanes left off. What it is made of is stored before it is ready.
  Status Open(std::stop_token stop, const v1::StoredStream* stored = nullptr);

  Result<Attachment> Attach(const AttachAsk& ask, std::shared_ptr<Consumer> consumer);
  void Detach(std::uint64_t consumer);
  // The consumer has let go of the earlier lane's memory that it reported when it attached.
  void OldArenaGone(std::uint64_t consumer);
  // To be called a few times a second while there are consumers.
  void Tick();
  // No new batches; those that are ready can still be taken.
  void Drain();
  // Whether consumers have yet to take a batch that is ready.
  bool HasReady() const;
  // Ends all lanes; consumers are told `why`.
  void Close(const Status& why);

  const v1::StreamSpec& spec() const { return spec_; }
  bool opened_by_attach() const { return by_attach_; }
  uid_t opener() const { return opener_; }
  std::size_t consumers() const;
  std::optional<Peer> AnyHolder() const;
  v1::StreamStatus Describe() const;
  // The rows of one batch, from the plan. kOutOfRange where there is no such step.
  Result<v1::WhichResponse> Which(const v1::WhichRequest& request) const;
  // The journal's numbers of the lanes that run.
  std::vector<std::uint64_t> OpenRuns() const;
  v1::ExplainResponse Explain(std::uint32_t world_size) const;

 private:
  struct Seated {  // a consumer
    std::uint32_t rank = 0;
    std::shared_ptr<Lane> lane;
  };
  struct Seat {  // where a rank's last holder left off
    Position left_at;
  };
  struct Tables {  // one per set of shards
    std::shared_ptr<const pipeline::EpochData> data;
    std::uint64_t paths_hash = 0;
    std::uint64_t data_hash = 0;
  };

  Tables CurrentTables() const;
  Result<Tables> OpenTables(std::uint64_t seed, std::stop_token stop,
                            const v1::StoredManifest* frozen);
  Status RestoreTables(const v1::StoredStream& stored, std::stop_token stop, Tables* first);
  void OpenJournal(bool restored);
  v1::StoredStream ToStore() const;
  void Store(const v1::StoredStream& stored);
  Result<std::shared_ptr<const plan::EpochPlan>> MakePlan(const pipeline::Dataset& dataset,
                                                          std::uint64_t seed) const;
  std::shared_ptr<const pipeline::EpochData> Ready(std::uint64_t epoch) const;
  Status Prepare(std::uint64_t epoch);
  Result<Position> StartLocked(const AttachAsk& ask, bool alone);
  Status CheckGridLocked(const AttachAsk& ask, const Position& start) const;
  Result<std::shared_ptr<Lane>> MakeLaneLocked(const AttachAsk& ask, const Position& start,
                                               uid_t uid);
  Result<Reservation> ReserveLaneLocked(std::uint32_t slots, const char* why);
  std::shared_ptr<Lane> DetachLocked(std::uint64_t consumer);
  void EndLane(const std::shared_ptr<Lane>& lane);
  void HoldOldArenaLocked(std::uint64_t consumer, std::uint64_t bytes);
  void GrowLocked();
  std::uint64_t LaneBytes() const;
  plan::Token IdentityLocked() const;
  plan::Grid GridOf(std::uint32_t world_size) const;
  std::size_t ConsumersLocked() const;
  bool broadcast() const { return spec_.delivery().mode() == v1::Delivery::BROADCAST; }

  const v1::StreamSpec spec_;
  const uid_t opener_;
  const bool by_attach_;
  Environment* const environment_;
  const std::shared_ptr<StreamCounters> counters_ = std::make_shared<StreamCounters>();
  std::atomic<std::uint64_t> indexed_bytes_{0};

  // The leaf lock: lanes ask for an epoch's rows under their own.
  mutable std::mutex data_mutex_;
  Tables tables_;                             // of the current epoch
  std::map<std::uint64_t, Tables> by_epoch_;  // refresh: EPOCH

  mutable std::mutex mutex_;  // taken before a lane's
  bool ready_ = false;
  bool closed_ = false;
  std::atomic<std::uint64_t> seed_{0};  // written under mutex_
  bool seed_drawn_ = false;
  std::shared_ptr<const pipeline::RowProgram> program_;
  std::uint32_t rows_per_run_ = 1;
  Reservation reservation_;  // index and scratch
  std::map<std::uint32_t, std::shared_ptr<Lane>> lanes_;
  std::map<std::uint64_t, Seated> ranks_;            // by consumer
  std::map<std::uint64_t, Reservation> old_arenas_;  // by consumer
  std::uint32_t gather_ = 0;  // BROADCAST: consumers of the lane that the next one goes on from
  std::map<std::uint32_t, Seat> seats_;
  std::shared_ptr<state::LaneJournal> journal_;  // may be null
  std::optional<Position> job_start_;            // while ranks are attached
  std::uint32_t world_size_ = 0;
};

}  // namespace stoker::stream
