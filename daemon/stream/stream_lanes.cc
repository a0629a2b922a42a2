// How consumers come to a stream's lanes and leave them.
#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/stream/spec_plan.h"
#include "daemon/stream/stream.h"

namespace stoker::stream {
namespace {

constexpr std::uint32_t kFewestSlots = 2;

std::string HolderText(const Peer& peer) {
  return "pid " + std::to_string(peer.pid) + ", uid " + std::to_string(peer.uid) + ", host " +
         (peer.host.empty() ? "unknown" : peer.host);
}

}  // namespace

Result<Attachment> Stream::Attach(const AttachAsk& ask, std::shared_ptr<Consumer> consumer) {
  std::lock_guard lock(mutex_);
  if (!ready_ || closed_) {
    return Status(Code::kUnavailable, "stream \"" + spec_.name() + "\" is closing");
  }
  if (ask.world_size == 0 || ask.rank >= ask.world_size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(ask.rank) +
                                              " is not below world_size " +
                                              std::to_string(ask.world_size));
  }
  if (ask.local_world_size != ask.world_size &&
      (seed_drawn_ || spec_.source(0).refresh() != v1::Source::NEVER)) {
    return Status(Code::kFailedPrecondition,
                  "world_size " + std::to_string(ask.world_size) + " and local_world_size " +
                      std::to_string(ask.local_world_size) +
                      " differ: over several hosts order.seed must be given and refresh be NEVER");
  }
  const std::uint32_t rank = broadcast() ? 0 : ask.rank;
  if (const auto held = lanes_.find(rank); !broadcast() && held != lanes_.end()) {
    // Its session may not have seen yet that the holder died.
    if (const std::uint64_t dead = held->second->DeadHolder(); dead != 0) {
      if (const auto ended = DetachLocked(dead)) EndLane(ended);
    }
  }
  const auto existing = lanes_.find(rank);
  if (!broadcast() && existing != lanes_.end()) {
    const auto holder = existing->second->Holder();
    return Status(Code::kFailedPrecondition,
                  "stream \"" + spec_.name() + "\": rank " + std::to_string(rank) +
                      " is taken by a live consumer (" +
                      (holder ? HolderText(*holder) : std::string("attaching")) + ")");
  }
  const bool alone = ConsumersLocked() == 0;
  if (!alone && !broadcast() && ask.world_size != world_size_) {
    return Status(Code::kFailedPrecondition,
                  "stream \"" + spec_.name() + "\" is read with world_size " +
                      std::to_string(world_size_) + " and this consumer brings " +
                      std::to_string(ask.world_size));
  }
  const std::uint64_t id = consumer->id();
  auto start = StartLocked(ask, alone);
  if (!start.ok()) return start.status();
  if (!broadcast()) STOKER_TRY(plan::CheckNotEmpty(GridOf(ask.world_size)));

  Attachment attachment;
  const bool joins = existing != lanes_.end();
  if (joins) {
    attachment.lane = existing->second;
  } else {
    HoldOldArenaLocked(id, ask.old_arena_bytes);
    auto lane = MakeLaneLocked(ask, *start, consumer->peer().uid);
    if (!lane.ok()) {
      old_arenas_.erase(id);
      return lane.status();
    }
    attachment.lane = std::move(*lane);
  }
  std::optional<Position> at;
  if (ask.token) at = *start;
  if (const Status added =
          attachment.lane->Add(std::move(consumer), at, joins && ask.next_epoch, &attachment.from);
      !added.ok()) {
    old_arenas_.erase(id);
    return added;
  }
  if (joins) HoldOldArenaLocked(id, ask.old_arena_bytes);
  auto arena = attachment.lane->ShareArena();
  if (!arena.ok()) {
    attachment.lane->Remove(id);
    old_arenas_.erase(id);
    return arena.status();
  }
  attachment.arena = std::move(*arena);
  ranks_[id] = {rank, attachment.lane};
  world_size_ = ask.world_size;
  if (alone) job_start_ = *start;
  if (!joins) {
    lanes_[rank] = attachment.lane;
    environment_->pool->Add(attachment.lane);
  }
  const plan::Grid grid = GridOf(broadcast() ? 1 : ask.world_size);
  attachment.exclusive = !broadcast();
  attachment.slots = attachment.lane->config().slots;
  attachment.slot_bytes = program_->slot_plan().slot_bytes();
  attachment.steps_per_epoch = plan::StepsLeft(grid);
  attachment.rows_per_epoch = grid.rows_per_epoch;
  attachment.identity = IdentityLocked();
  attachment.identity.world = broadcast() ? 1 : ask.world_size;
  attachment.plan_id =
      plan::PlanId(seed_, attachment.identity.order_hash, attachment.identity.data_hash);
  return attachment;
}

Result<std::shared_ptr<Lane>> Stream::MakeLaneLocked(const AttachAsk& ask, const Position& start,
                                                     uid_t uid) {
  LaneConfig config;
  config.stream = spec_.name();
  config.rank = broadcast() ? 0 : ask.rank;
  config.world_size = broadcast() ? 1 : ask.world_size;
  config.expect = broadcast() ? std::max(1u, spec_.delivery().expect()) : 1;
  config.slots = spec_.delivery().slots();
  config.exclusive = !broadcast();
  config.first_slots = config.slots;
  if (broadcast()) {
    config.gather = std::exchange(gather_, 0);
    if (config.gather > 0) config.expect = 1;  // those that it had are enough
    config.catch_up = spec_.delivery().has_catch_up() ? spec_.delivery().catch_up() : config.slots;
    config.max_lag_ms = spec_.delivery().max_lag_ms();
  }
  config.remainder = RemainderOf(spec_);
  if (spec_.order().has_repeat()) config.repeat = spec_.order().repeat();
  config.start = start;
  config.seed = seed_;
  config.rows_per_run = rows_per_run_;
  config.max_bad_records = spec_.source(0).max_bad_records();
  config.program = program_;
  config.journal = journal_;
  config.ready = [self = shared_from_this()](std::uint64_t epoch) { return self->Ready(epoch); };
  config.prepare = [self = shared_from_this()](std::uint64_t epoch) {
    return self->Prepare(epoch);
  };
  if (environment_->quota != nullptr) {
    auto hold = environment_->quota->TakeLane(uid, config.slots, LaneBytes());
    if (!hold.ok()) return Status(hold.status()).Annotate("stream \"" + spec_.name() + "\"");
    config.quota = std::move(*hold);
  }
  auto reservation = ReserveLaneLocked(config.slots, "an arena");
  if (!reservation.ok() && !old_arenas_.empty() && config.slots > kFewestSlots) {
    // What an earlier lane's consumers still read goes away by itself.
    config.first_slots = kFewestSlots;
    reservation = ReserveLaneLocked(kFewestSlots, "the beginning of an arena");
  }
  if (!reservation.ok()) return reservation.status();
  WorkerPool* pool = environment_->pool;
  return Lane::Make(std::move(config), std::move(*reservation), counters_,
                    [pool] { pool->Wake(); });
}

Result<Reservation> Stream::ReserveLaneLocked(std::uint32_t slots, const char* why) {
  const std::uint64_t slot_bytes = program_->slot_plan().slot_bytes();
  return environment_->budget->Reserve(
      slot_bytes * slots, "stream \"" + spec_.name() + "\": " + why + " of " +
                              std::to_string(slots) + " slots of " + std::to_string(slot_bytes) +
                              " bytes");
}

std::shared_ptr<Lane> Stream::DetachLocked(std::uint64_t consumer) {
  old_arenas_.erase(consumer);
  const auto it = ranks_.find(consumer);
  if (it == ranks_.end()) return nullptr;
  const Seated seated = std::move(it->second);
  ranks_.erase(it);
  const Position left_at = seated.lane->Remove(consumer);
  const auto lane = lanes_.find(seated.rank);
  if (lane == lanes_.end() || lane->second != seated.lane) return nullptr;  // replaced by another
  seats_[seated.rank].left_at = left_at;
  if (seated.lane->consumers() > 0) return nullptr;
  lanes_.erase(lane);
  if (ConsumersLocked() == 0) job_start_.reset();
  return seated.lane;
}

void Stream::EndLane(const std::shared_ptr<Lane>& lane) {
  lane->Stop(Status(Code::kUnavailable, "its consumers are gone"));
  environment_->pool->Remove(lane.get());
}

void Stream::Detach(std::uint64_t consumer) {
  std::shared_ptr<Lane> ended;
  {
    std::lock_guard lock(mutex_);
    ended = DetachLocked(consumer);
    GrowLocked();
  }
  if (ended != nullptr) EndLane(ended);
}

// A client's word counts up to the size of a lane of this stream: an earlier one was no larger. All
// consumers of a broadcast lane map the same memory.
void Stream::HoldOldArenaLocked(std::uint64_t consumer, std::uint64_t bytes) {
  bytes = std::min(bytes, LaneBytes());
  if (bytes == 0 || (broadcast() && !old_arenas_.empty())) return;
  old_arenas_[consumer] = environment_->budget->Hold(bytes);
}

void Stream::OldArenaGone(std::uint64_t consumer) {
  std::lock_guard lock(mutex_);
  old_arenas_.erase(consumer);
  GrowLocked();
}

// Gives lanes that began with few slots the rest, where the budget has room now.
void Stream::GrowLocked() {
  for (const auto& [rank, lane] : lanes_) {
    if (!lane->short_of_slots()) continue;
    auto rest = ReserveLaneLocked(lane->config().slots - lane->config().first_slots,
                                  "the rest of an arena");
    if (rest.ok()) lane->Grow(std::move(*rest));
  }
}

void Stream::Tick() {
  std::shared_ptr<Lane> held_up;
  std::vector<std::uint64_t> overdue;
  {
    std::lock_guard lock(mutex_);
    GrowLocked();
    if (!broadcast()) return;
    const auto lane = lanes_.find(0);
    if (lane == lanes_.end()) return;
    lane->second->Tick();
    overdue = lane->second->Overdue();
    if (overdue.empty()) return;
    held_up = lane->second;
    gather_ = static_cast<std::uint32_t>(held_up->consumers() - overdue.size());
    lanes_.erase(lane);
  }
  const std::string stream = "stream \"" + spec_.name() + "\": ";
  LogWarning(stream + std::to_string(overdue.size()) + " consumers evicted by delivery.max_lag_ms");
  held_up->Evict(overdue,
                 Status(Code::kResourceExhausted,
                        stream + "evicted: for more than delivery.max_lag_ms: " +
                            std::to_string(spec_.delivery().max_lag_ms()) +
                            " this consumer gave no batch back and the others waited for it; "
                            "release batches sooner, or raise it"),
                 Status(Code::kUnavailable,
                        stream + "a consumer that held up the others was evicted; attach again"));
  environment_->pool->Remove(held_up.get());
}

}  // namespace stoker::stream
