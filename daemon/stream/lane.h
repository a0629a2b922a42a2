// Lane: one in-order sequence of batches: its plan cursor, its slots, its ledger.
//
// A slot's life, every transition under the lane's lock:
//
//   free ─▶ rows ─▶ laying out ─▶ placing ─▶ finishing ─▶ complete ─▶ published ─▶ free
//            │                        ▲          ▲
//            └─ (nothing to place) ───┴──────────┘       a failed batch goes from complete to free
//
// Planned in order, worked on by any worker, published in order. The ledger is a mask per slot of
// the consumers that hold it, kept here and never in shared memory; clearing a bit twice is
// harmless. Order on publish: ledger, ring, doorbell.
//
// Ownership: shared by its stream and the worker pool. Owns arena and builders.
// Thread-safety: any thread; one mutex, taken once for each run of rows and each returned slot,
//   never for a row. Blocking: TakeWork() and the consumer calls do not block; Do() works.
// Errors: a lane's error is sticky: batches before it are delivered, then every consumer is told.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/batch_builder.h"
#include "daemon/plan/grid.h"
#include "daemon/state/lane_journal.h"
#include "daemon/stream/arena.h"
#include "daemon/stream/budget.h"
#include "daemon/stream/consumer.h"
#include "daemon/stream/counters.h"
#include "daemon/stream/position.h"

namespace stoker::stream {

struct LaneConfig {
  std::string stream;  // its name, for messages
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t expect = 1;  // consumers to wait for before the first batch is published
  std::uint32_t slots = 4;
  std::uint32_t first_slots = 4;  // of them paid for when the lane is made; 2 to slots
  // BROADCAST. The lane goes on from an earlier one that had so many consumers: it waits for them
  // to come back, or for kGatherTime, and begins at the lowest position that any of them brings.
  std::uint32_t gather = 0;
  std::uint32_t catch_up = 4;    // batches behind the lane at which a consumer may still join
  std::uint64_t max_lag_ms = 0;  // 0: a slow consumer is waited for
  bool exclusive = true;         // one consumer, which may write in the slots it holds
  plan::Remainder remainder = plan::Remainder::kPartial;
  std::optional<std::uint64_t> repeat;
  Position start;
  std::uint64_t seed = 0;
  std::uint32_t rows_per_run = 1;
  std::uint64_t max_bad_records = 0;
  std::shared_ptr<const pipeline::RowProgram> program;
  std::shared_ptr<state::LaneJournal> journal;  // may be null
  std::shared_ptr<const void> quota;            // what the lane takes of its user's limits
  // The rows of an epoch. `ready` answers at once, nullptr where `prepare` must be called first.
  std::function<std::shared_ptr<const pipeline::EpochData>(std::uint64_t epoch)> ready;
  std::function<Status(std::uint64_t epoch)> prepare;
};

class Lane {
 public:
  // One piece of work for one worker.
  struct Work {
    enum class Kind { kReserve, kPrepareEpoch, kRows, kPlace, kFinish } kind;
    std::uint32_t slot = 0;
    std::uint32_t run = 0;
    std::uint64_t epoch = 0;
  };

  // Reserves the arena's bytes in `reservation` (made by the caller) and two slots' pages.
  // `wake` tells the worker pool that there is work.
  static Result<std::shared_ptr<Lane>> Make(LaneConfig config, Reservation reservation,
                                            std::shared_ptr<StreamCounters> counters,
                                            std::function<void()> wake);

  // Takes the next piece of work, or answers false. Also takes in what consumers returned.
  bool TakeWork(Work* work);
  void Do(const Work& work, pipeline::RowWorker* worker);
  // How close its consumers are to starving: batches that are complete or published. Less is more
  // urgent.
  int ready_batches() const { return ready_.load(std::memory_order_relaxed); }
  const std::shared_ptr<const pipeline::RowProgram>& program() const { return config_.program; }

  // Asks clients to ring the daemon's bell when they return a slot, then looks once more for what
  // was returned before they saw it. Called before workers sleep.
  void ArmReturns();
  void DrainReturns();

  // Adds a consumer; `*from` is where its batches begin. With `at`, its batches begin there: ahead
  // of the lane it waits, up to `catch_up` batches behind the lane goes back for it alone;
  // kFailedPrecondition with both positions where it is further behind or between two steps.
  Status Add(std::shared_ptr<Consumer> consumer, std::optional<Position> at, bool next_epoch,
             Position* from);
  // Takes a consumer out and frees what it held. Returns the position of the first batch that it
  // did not release.
  Position Remove(std::uint64_t consumer);
  std::size_t consumers() const;
  // To be called a few times a second: begins when a gathering is over.
  void Tick();
  // Consumers that have kept the others waiting for longer than max_lag.
  std::vector<std::uint64_t> Overdue() const;
  // Ends the lane: nobody may write in slots that the evicted still read. The others attach anew.
  void Evict(const std::vector<std::uint64_t>& ids, const Status& evicted, const Status& others);
  // Pays for the slots above first_slots.
  void Grow(Reservation reservation);
  bool short_of_slots() const;
  // No new work; what is ready can still be taken.
  void Drain();
  // Whether a consumer has yet to take a batch that is ready for it.
  bool HasReady() const;
  // No new work; batches in flight are thrown away. Consumers are told `why`.
  void Stop(const Status& why);

  Result<shm::Fd> ShareArena();
  std::uint64_t arena_bytes() const { return arena_.bytes(); }
  const LaneConfig& config() const { return config_; }
  std::uint64_t run() const { return run_; }  // its number in the journal
  Position position() const;                  // of the next batch to be published
  void Describe(v1::LaneStatus* out) const;
  // Who holds the lane, for refusals; nullopt when nobody does.
  std::optional<Peer> Holder() const;
  // The holder where its process has ended already, 0 where not.
  std::uint64_t DeadHolder() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State {
    kUnreserved,
    kReserving,
    kFree,
    kRows,
    kLayingOut,
    kPlacing,
    kFinishing,
    kComplete,
    kPublished
  };

  struct Slot {
    State state = State::kUnreserved;
    std::uint64_t sequence = 0;
    std::uint32_t generation = 0;
    std::uint32_t next_run = 0;
    std::uint32_t runs = 0;
    std::uint32_t pending = 0;
    std::uint64_t holders = 0;  // the ledger: a bit for each member that holds it
    bool ends_epoch = false;
    bool ends_stream = false;
    bool discarded = false;  // the lane went back: its work is thrown away
    Position at;
    std::uint64_t after_row = 0;           // the next step's first row in the same epoch
    state::JournalEntry* entry = nullptr;  // of its epoch
    std::unique_ptr<pipeline::BatchBuilder> builder;
    std::shared_ptr<const pipeline::EpochData> data;
    pipeline::BatchOutcome outcome;
  };
  struct Member {
    std::shared_ptr<Consumer> consumer;
    std::uint64_t bit = 0;
    Position from;       // earlier batches are not for it
    bool ended = false;  // it knows that the stream has ended
  };

  Lane(LaneConfig config, Reservation reservation, Arena arena,
       std::shared_ptr<StreamCounters> counters, std::function<void()> wake);

  bool TakeRunLocked(Work* work);
  bool BeginLocked(Work* work);
  bool EnterEpochLocked(std::uint64_t epoch, std::uint64_t row, Work* work);
  void AdvanceLocked();
  void EndOfRows(Slot* slot);
  void Finish(Slot* slot);
  void PublishLocked();
  Status JudgeLocked(const Slot& slot);
  void DeliverLocked(Slot* slot);
  void PushLocked(Member& member, std::uint64_t word);
  void EndLocked(Member& member, std::uint64_t epoch);
  void FailLocked(Status status);
  void FreeLocked(Slot* slot);
  // Takes the last of a slot's runs in; answers whether the slot goes on to `next`.
  bool RunDone(Slot* slot, State next);
  bool BatchesAgainLocked(const Position& at, std::vector<Slot*>* again);
  void HandAgainLocked(Member* member, const std::vector<Slot*>& again);
  Status CheckJoinLocked(const Position& at, const Position& now) const;
  std::optional<std::uint64_t> StepsBetweenLocked(Position from, const Position& to) const;
  void RewindLocked(const Position& to);
  bool GatheredLocked() const;
  void CountConsumersLocked();
  std::uint32_t ToComeBackLocked() const;
  void BeginEntryLocked(std::uint64_t row);
  void JournalDeliveryLocked(const Slot& slot);
  void JournalReleaseLocked(state::JournalEntry* entry);
  void DrainLocked();
  void ReleaseLocked(Member& member, std::uint64_t word);
  Position PositionLocked() const;
  void CountReadyLocked();
  Slot* NextToPublishLocked();

  std::shared_ptr<const void> quota_;  // taken out of the config; given back when the lane ends
  const LaneConfig config_;
  const std::shared_ptr<StreamCounters> counters_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;
  Reservation reservation_;
  Arena arena_;
  std::vector<Slot> slots_;
  std::vector<Member> members_;

  // The plan cursor: the next batch to begin.
  std::shared_ptr<const pipeline::EpochData> data_;
  plan::Grid grid_;
  std::uint64_t epoch_ = 0;
  std::uint64_t enter_row_ = 0;  // where the next epoch is entered
  std::uint64_t step_ = 0;       // from the grid's origin
  std::uint64_t steps_ = 0;
  bool planned_all_ = false;
  bool preparing_ = false;

  std::uint64_t next_sequence_ = 0;
  std::uint64_t publish_sequence_ = 0;
  bool started_ = false;
  bool stopped_ = false;
  bool draining_ = false;
  std::uint32_t returning_ = 0;  // consumers of the earlier lane that have not come back
  std::uint32_t paid_slots_ = 0;
  Reservation growth_;
  Position fresh_from_;  // batches before it have been delivered already
  Clock::time_point made_at_ = Clock::now();
  state::JournalEntry* entry_ = nullptr;                   // of the epoch that is planned
  std::map<std::uint64_t, state::JournalEntry*> entries_;  // by epoch, from the position on
  std::uint64_t run_ = 0;                                  // this lane's number in the journal
  std::optional<Status> error_;
  std::uint64_t bad_epoch_ = 0;
  std::uint64_t bad_in_epoch_ = 0;
  std::vector<std::string> bad_places_;

  std::atomic<int> ready_{0};
  std::uint64_t rows_delivered_ = 0;
  std::uint64_t batches_delivered_ = 0;
  std::uint64_t out_of_order_ = 0;
  Clock::time_point empty_since_ = Clock::now();
  Clock::time_point full_since_{};
  Clock::duration empty_time_{};
  Clock::duration full_time_{};
};

}  // namespace stoker::stream
