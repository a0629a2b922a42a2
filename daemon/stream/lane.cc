#include "daemon/stream/lane.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/base/log.h"

namespace stoker::stream {
namespace {

constexpr std::uint32_t kReservedFirst = 2;
constexpr std::size_t kMaxMembers = 64;  // bits of the ledger

std::string Place(const pipeline::BadRow& bad, const std::string& shard, std::uint64_t epoch) {
  std::string text = std::string(FaultName(bad.fault)) + " in " + shard + ", record " +
                     std::to_string(plan::RecordOf(bad.id)) + ", offset " +
                     std::to_string(bad.offset) + " (epoch " + std::to_string(epoch) + ", row " +
                     std::to_string(bad.row) + ")";
  if (!bad.detail.empty()) text += ": " + bad.detail;
  return text;
}

// What the caller should do about it: bytes are broken, or the spec does not fit them.
Code CodeOf(FaultClass fault) {
  switch (fault) {
    case FaultClass::kFeatureMissing:
    case FaultClass::kFeatureKind:
    case FaultClass::kFeatureCount:
    case FaultClass::kBatchOverflow:
    case FaultClass::kAmbiguousExample:
      return Code::kInvalidArgument;
    default:
      return Code::kDataLoss;
  }
}

}  // namespace

Result<std::shared_ptr<Lane>> Lane::Make(LaneConfig config, Reservation reservation,
                                         std::shared_ptr<StreamCounters> counters,
                                         std::function<void()> wake) {
  auto arena =
      Arena::Make(config.program->slot_plan().slot_bytes(), config.slots, config.exclusive);
  if (!arena.ok()) return arena.status();
  std::shared_ptr<Lane> lane(new Lane(std::move(config), std::move(reservation), std::move(*arena),
                                      std::move(counters), std::move(wake)));
  for (std::uint32_t i = 0; i < std::min(kReservedFirst, lane->config_.slots); ++i) {
    STOKER_TRY(lane->arena_.Reserve(i));
    lane->reservation_.Touched(lane->arena_.slot_bytes());
    lane->slots_[i].state = State::kFree;
  }
  return lane;
}

Lane::Lane(LaneConfig config, Reservation reservation, Arena arena,
           std::shared_ptr<StreamCounters> counters, std::function<void()> wake)
    : quota_(std::move(config.quota)),
      config_(std::move(config)),
      counters_(std::move(counters)),
      wake_(std::move(wake)),
      reservation_(std::move(reservation)),
      arena_(std::move(arena)),
      slots_(config_.slots) {
  for (Slot& slot : slots_) {
    slot.builder = std::make_unique<pipeline::BatchBuilder>(config_.program, config_.seed,
                                                            config_.rows_per_run);
  }
  if (config_.journal != nullptr) run_ = config_.journal->NewRun();
  returning_ = config_.gather;
  paid_slots_ = std::min(config_.slots, config_.first_slots);
  epoch_ = config_.start.epoch;
  enter_row_ = config_.start.row;
  planned_all_ = config_.repeat && epoch_ >= *config_.repeat;
}

bool Lane::TakeWork(Work* work) {
  std::lock_guard lock(mutex_);
  DrainLocked();
  if (stopped_ || error_ || draining_) return false;
  return TakeRunLocked(work) || BeginLocked(work);
}

// A run of the earliest batch that has one left: in-order delivery waits for it first.
bool Lane::TakeRunLocked(Work* work) {
  Slot* earliest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state != State::kRows && slot.state != State::kPlacing) continue;
    if (slot.next_run >= slot.runs) continue;
    if (earliest == nullptr || slot.sequence < earliest->sequence) earliest = &slot;
  }
  if (earliest == nullptr) return false;
  work->kind = earliest->state == State::kRows ? Work::Kind::kRows : Work::Kind::kPlace;
  work->slot = static_cast<std::uint32_t>(earliest - slots_.data());
  work->run = earliest->next_run++;
  return true;
}

// Begins the next batch of the plan in a free slot.
bool Lane::BeginLocked(Work* work) {
  if (planned_all_ || preparing_) return false;
  Slot* free = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree) {
      free = &slot;
      break;
    }
    const bool paid = &slot - slots_.data() < static_cast<std::ptrdiff_t>(paid_slots_);
    if (slot.state == State::kUnreserved && paid && free == nullptr) free = &slot;
  }
  if (free == nullptr) {
    if (full_since_ == Clock::time_point{}) full_since_ = Clock::now();
    return false;
  }
  work->slot = static_cast<std::uint32_t>(free - slots_.data());
  if (free->state == State::kUnreserved) {
    free->state = State::kReserving;
    work->kind = Work::Kind::kReserve;
    return true;
  }
  if (data_ == nullptr) {
    if (!EnterEpochLocked(epoch_, enter_row_, work)) return preparing_;
    enter_row_ = 0;
  }

  const plan::Step step = plan::StepAt(grid_, step_);
  const plan::RankRows rows = plan::RowsOf(grid_, step, config_.rank);
  pipeline::BatchIdentity identity;
  identity.epoch = epoch_;
  identity.step = step.number;
  identity.step_first = step.first_row;
  identity.first_row = rows.first;
  identity.rows = rows.count;
  identity.filler = rows.filler;
  identity.rank = config_.rank;
  identity.world_size = config_.world_size;
  free->at = {epoch_, step.first_row};
  free->after_row = step.first_row + step.rows;
  free->entry = free->at >= fresh_from_ ? entry_ : nullptr;
  free->ends_epoch = step_ + 1 == steps_;
  free->ends_stream = free->ends_epoch && config_.repeat && epoch_ + 1 >= *config_.repeat;
  identity.next_epoch = free->ends_epoch ? epoch_ + 1 : epoch_;
  identity.next_row = free->ends_epoch ? 0 : step.first_row + step.rows;
  free->sequence = next_sequence_++;
  ++free->generation;
  free->data = data_;
  free->builder->Begin(data_, arena_.slot(work->slot), free->generation, identity);
  free->runs = free->builder->runs();
  free->pending = free->runs;
  free->next_run = 0;
  AdvanceLocked();
  if (free->runs == 0) {
    free->state = State::kLayingOut;
    work->kind = Work::Kind::kFinish;
    return true;
  }
  free->state = State::kRows;
  free->next_run = 1;
  work->kind = Work::Kind::kRows;
  work->run = 0;
  return true;
}

// Lays the grid over the epoch's rows. Answers false where the epoch must be prepared first (then
// `work` says so) or cannot be entered (then the lane has failed).
bool Lane::EnterEpochLocked(std::uint64_t epoch, std::uint64_t row, Work* work) {
  auto data = config_.ready(epoch);
  if (data == nullptr) {
    preparing_ = true;
    work->kind = Work::Kind::kPrepareEpoch;
    work->epoch = epoch;
    return false;
  }
  grid_ = plan::Grid{data->plan->rows(), config_.program->batch(), config_.world_size,
                     config_.remainder, row};
  steps_ = row < data->plan->rows() ? plan::StepsLeft(grid_) : 0;
  step_ = 0;
  if (steps_ == 0 && row > 0) {  // a position with less than a step left: the epoch is over
    epoch_ = epoch + 1;
    enter_row_ = 0;
    planned_all_ = config_.repeat && epoch_ >= *config_.repeat;
    if (planned_all_) {
      for (Member& member : members_) EndLocked(member, epoch);
      return false;
    }
    return EnterEpochLocked(epoch_, 0, work);
  }
  if (const Status empty = plan::CheckNotEmpty(grid_); !empty.ok()) {
    FailLocked(empty);
    return false;
  }
  data_ = std::move(data);
  BeginEntryLocked(row);
  return true;
}

void Lane::AdvanceLocked() {
  if (++step_ < steps_) return;
  data_ = nullptr;
  ++epoch_;
  planned_all_ = config_.repeat && epoch_ >= *config_.repeat;
}

void Lane::Do(const Work& work, pipeline::RowWorker* worker) {
  Slot& slot = slots_[work.slot];
  switch (work.kind) {
    case Work::Kind::kReserve: {
      const Status reserved = arena_.Reserve(work.slot);
      std::lock_guard lock(mutex_);
      if (!reserved.ok()) return FailLocked(reserved);
      (work.slot < config_.first_slots ? reservation_ : growth_).Touched(arena_.slot_bytes());
      slot.state = State::kFree;
      break;
    }
    case Work::Kind::kPrepareEpoch: {
      const Status prepared = config_.prepare(work.epoch);
      std::lock_guard lock(mutex_);
      preparing_ = false;
      if (!prepared.ok()) FailLocked(prepared);
      break;
    }
    case Work::Kind::kRows: {
      slot.builder->RunRows(work.run, worker);
      counters_->Add(worker->TakeCounters());
      if (RunDone(&slot, State::kLayingOut)) EndOfRows(&slot);
      return;
    }
    case Work::Kind::kPlace: {
      slot.builder->PlaceRun(work.run, worker);
      if (RunDone(&slot, State::kFinishing)) Finish(&slot);
      return;
    }
    case Work::Kind::kFinish:
      return EndOfRows(&slot);
  }
  wake_();
}

bool Lane::RunDone(Slot* slot, State next) {
  {
    std::lock_guard lock(mutex_);
    if (--slot->pending > 0) return false;
    if (!slot->discarded) {
      slot->state = next;
      return true;
    }
    FreeLocked(slot);
  }
  wake_();
  return false;
}

void Lane::EndOfRows(Slot* slot) {
  if (!slot->builder->EndOfRows()) return Finish(slot);
  {
    std::lock_guard lock(mutex_);
    if (slot->discarded) {
      FreeLocked(slot);
      return wake_();
    }
    slot->pending = slot->runs;
    slot->next_run = 0;
    slot->state = State::kPlacing;
  }
  wake_();
}

void Lane::Finish(Slot* slot) {
  auto outcome = slot->builder->Finish();
  std::lock_guard lock(mutex_);
  if (slot->discarded) {
    FreeLocked(slot);
    return wake_();
  }
  slot->outcome = std::move(outcome);
  slot->state = State::kComplete;
  if (slot->sequence != publish_sequence_) ++out_of_order_;
  PublishLocked();
}

Lane::Slot* Lane::NextToPublishLocked() {
  for (Slot& slot : slots_) {
    if (slot.state == State::kComplete && slot.sequence == publish_sequence_) return &slot;
  }
  return nullptr;
}

void Lane::PublishLocked() {
  if (!started_ && members_.size() >= config_.expect && GatheredLocked()) {
    started_ = true;
    CountConsumersLocked();
  }
  while (started_ && !members_.empty()) {
    Slot* slot = NextToPublishLocked();
    if (slot == nullptr) break;
    if (stopped_ || error_) {
      FreeLocked(slot);
      break;
    }
    if (Status judged = JudgeLocked(*slot); !judged.ok()) {
      FailLocked(std::move(judged));
      FreeLocked(slot);
      break;
    }
    ++publish_sequence_;
    DeliverLocked(slot);
  }
  CountReadyLocked();
}

// Bad records are counted here, in delivery order, so that the limit is met at the same batch
// for any number of workers.
Status Lane::JudgeLocked(const Slot& slot) {
  const std::uint64_t epoch = slot.at.epoch;
  if (slot.at < fresh_from_) return Status();  // judged when it was delivered first
  if (epoch != bad_epoch_) {
    bad_epoch_ = epoch;
    bad_in_epoch_ = 0;
    bad_places_.clear();
  }
  for (const pipeline::BadRow& bad : slot.outcome.bad) {
    const std::string& shard = slot.data->dataset->path(plan::ShardOf(bad.id));
    const std::string place = Place(bad, shard, epoch);
    counters_->AddBad(bad, shard, epoch);
    LogLimited(LogLevel::kWarning, "bad-record", "stream \"" + config_.stream + "\": " + place);
    const Code code = CodeOf(bad.fault);
    if (config_.program->on_bad_record() == v1::FAIL) {
      return Status(code, "stream \"" + config_.stream + "\": bad record: " + place +
                              "; repair it, or set on_bad_record: SKIP to go on without it");
    }
    if (bad.hopeless) {
      return Status(code, "stream \"" + config_.stream + "\": bad record: " + place +
                              "; none of its 16 spare records is good");
    }
    ++bad_in_epoch_;
    bad_places_.push_back(place);
    if (bad_in_epoch_ > config_.max_bad_records) {
      std::string all;
      for (const auto& text : bad_places_) all += "\n  " + text;
      return Status(code, "stream \"" + config_.stream + "\": " + std::to_string(bad_in_epoch_) +
                              " bad records in epoch " + std::to_string(epoch) +
                              ", max_bad_records is " + std::to_string(config_.max_bad_records) +
                              ":" + all);
    }
  }
  return Status();
}

void Lane::DeliverLocked(Slot* slot) {
  const auto number = static_cast<std::uint32_t>(slot - slots_.data());
  slot->state = State::kPublished;
  slot->holders = 0;
  for (const Member& member : members_) {
    if (slot->at >= member.from) slot->holders |= member.bit;
  }
  if (empty_since_ != Clock::time_point{}) {
    empty_time_ += Clock::now() - empty_since_;
    empty_since_ = {};
  }
  ++batches_delivered_;
  rows_delivered_ += slot->outcome.rows;
  counters_->AddBatch(slot->outcome.rows);
  JournalDeliveryLocked(*slot);
  shm::StampPublished(arena_.slot(number));
  for (Member& member : members_) {
    if (slot->at < member.from) {
      if (slot->ends_stream) EndLocked(member, slot->at.epoch);
      continue;
    }
    ++member.consumer->batches_delivered;
    ++member.consumer->held;
    PushLocked(member, shm::BatchWord(number, slot->generation));
    if (slot->ends_stream) {
      EndLocked(member, slot->at.epoch);
    } else if (slot->ends_epoch) {
      PushLocked(member, shm::EndOfEpochWord(slot->at.epoch));
    }
  }
  if (slot->holders == 0) FreeLocked(slot);
}

void Lane::PushLocked(Member& member, std::uint64_t word) {
  if (!member.consumer->mailbox().Deliver(word)) {
    member.consumer->Disgraced("its delivery ring is full or corrupt");
  }
}

void Lane::EndLocked(Member& member, std::uint64_t epoch) {
  if (!std::exchange(member.ended, true)) PushLocked(member, shm::EndOfStreamWord(epoch));
}

void Lane::FailLocked(Status status) {
  if (error_ || stopped_) return;
  LogLimited(LogLevel::kError, "stream-failed", status.message());
  for (Member& member : members_) {
    member.consumer->TellError(status);
    PushLocked(member, shm::ErrorWord());
  }
  error_ = std::move(status);
}

void Lane::FreeLocked(Slot* slot) {
  slot->state = State::kFree;
  slot->holders = 0;
  slot->discarded = false;
  slot->data = nullptr;
  if (full_since_ != Clock::time_point{}) {
    full_time_ += Clock::now() - full_since_;
    full_since_ = {};
  }
}

void Lane::CountReadyLocked() {
  int ready = 0;
  bool published = false;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kComplete || slot.state == State::kPublished) ++ready;
    published = published || slot.state == State::kPublished;
  }
  if (!published && empty_since_ == Clock::time_point{}) empty_since_ = Clock::now();
  ready_.store(ready, std::memory_order_relaxed);
}

void Lane::DrainLocked() {
  bool any = false;
  for (Member& member : members_) {
    std::uint64_t word = 0;
    while (true) {
      const auto got = member.consumer->mailbox().TakeReturn(&word);
      if (got == shm::RingResult::kEmpty) break;
      if (got == shm::RingResult::kCorrupt) {
        member.consumer->Disgraced("its return ring is corrupt");
        break;
      }
      ReleaseLocked(member, word);
      any = true;
    }
  }
  if (any) CountReadyLocked();
}

// `word` is what a client wrote: it names a slot only if that client holds it.
void Lane::ReleaseLocked(Member& member, std::uint64_t word) {
  const std::uint32_t number = shm::SlotOfWord(word);
  if (number >= slots_.size()) {
    return member.consumer->Disgraced("it returned slot " + std::to_string(number) + " of " +
                                      std::to_string(slots_.size()));
  }
  Slot& slot = slots_[number];
  if (slot.state != State::kPublished || slot.generation != shm::GenerationOfWord(word) ||
      (slot.holders & member.bit) == 0) {
    return member.consumer->Disgraced("it returned slot " + std::to_string(number) +
                                      ", which it does not hold");
  }
  --member.consumer->held;
  slot.holders &= ~member.bit;
  if (slot.holders != 0) return;
  FreeLocked(&slot);
  JournalReleaseLocked(slot.entry);
}

void Lane::ArmReturns() {
  std::lock_guard lock(mutex_);
  for (Member& member : members_) member.consumer->mailbox().ArmReturns();
  DrainLocked();
}

void Lane::DrainReturns() {
  std::lock_guard lock(mutex_);
  DrainLocked();
}

Status Lane::Add(std::shared_ptr<Consumer> consumer, std::optional<Position> at, bool next_epoch,
                 Position* from) {
  std::lock_guard lock(mutex_);
  if (stopped_) return Status(Code::kUnavailable, "the lane is closing");
  if (error_) return *error_;
  if (members_.size() >= kMaxMembers) {
    return Status(Code::kResourceExhausted, "stream \"" + config_.stream +
                                                "\": a lane has at most " +
                                                std::to_string(kMaxMembers) + " consumers");
  }
  Member member;
  std::uint64_t taken = 0;
  for (const Member& other : members_) taken |= other.bit;
  member.bit = std::uint64_t{1} << std::countr_one(taken);
  member.consumer = std::move(consumer);

  std::vector<Slot*> again;
  const Position now = PositionLocked();
  bool rewind = false;
  *from = now;
  if (next_epoch) {
    if (now.row > 0) *from = {now.epoch + 1, 0};
  } else if (at && *at != now) {
    if (!BatchesAgainLocked(*at, &again)) {
      STOKER_TRY(CheckJoinLocked(*at, now));
      rewind = *at < now;
    }
    *from = *at;
  }
  member.from = again.empty() ? *from : now;
  if (rewind) RewindLocked(*at);
  members_.push_back(std::move(member));
  Member& added = members_.back();
  HandAgainLocked(&added, again);
  if (again.empty() && planned_all_ && next_sequence_ == publish_sequence_) {
    EndLocked(added, epoch_ == 0 ? 0 : epoch_ - 1);
  }
  if (at && returning_ > 0) --returning_;
  CountConsumersLocked();
  PublishLocked();
  if (rewind) wake_();
  return Status();
}

Position Lane::Remove(std::uint64_t consumer) {
  std::lock_guard lock(mutex_);
  DrainLocked();
  Position position = PositionLocked();
  const auto it = std::find_if(members_.begin(), members_.end(), [consumer](const Member& member) {
    return member.consumer->id() == consumer;
  });
  if (it == members_.end()) return position;
  for (Slot& slot : slots_) {
    if (slot.state != State::kPublished || (slot.holders & it->bit) == 0) continue;
    position = std::min(position, slot.at);
    slot.holders &= ~it->bit;
    if (slot.holders == 0) FreeLocked(&slot);
  }
  members_.erase(it);
  CountConsumersLocked();
  CountReadyLocked();
  wake_();
  return position;
}

std::size_t Lane::consumers() const {
  std::lock_guard lock(mutex_);
  return members_.size();
}

void Lane::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool Lane::HasReady() const {
  std::lock_guard lock(mutex_);
  if (stopped_ || error_) return false;
  for (const Member& member : members_) {
    if (member.consumer->mailbox().Undelivered() > 0) return true;
  }
  return false;
}

void Lane::Stop(const Status& why) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  quota_.reset();  // its user may attach again while the last worker lets go
  for (Member& member : members_) {
    member.consumer->TellClosing(why);
    PushLocked(member, shm::ClosingWord());
  }
}

Result<shm::Fd> Lane::ShareArena() {
  std::lock_guard lock(mutex_);
  return arena_.Share();
}

Position Lane::position() const {
  std::lock_guard lock(mutex_);
  return PositionLocked();
}

Position Lane::PositionLocked() const {
  for (const Slot& slot : slots_) {
    const bool in_flight = slot.state >= State::kRows && slot.state <= State::kComplete;
    if (in_flight && !slot.discarded && slot.sequence == publish_sequence_) return slot.at;
  }
  if (planned_all_) return {epoch_, 0};
  if (data_ == nullptr) return {epoch_, enter_row_};
  return {epoch_, plan::StepAt(grid_, step_).first_row};
}

std::optional<Peer> Lane::Holder() const {
  std::lock_guard lock(mutex_);
  if (members_.empty()) return std::nullopt;
  return members_.front().consumer->peer();
}

void Lane::Describe(v1::LaneStatus* out) const {
  std::lock_guard lock(mutex_);
  const Position at = PositionLocked();
  out->set_rank(config_.rank);
  out->set_world_size(config_.world_size);
  out->set_epoch(at.epoch);
  out->set_global_row(at.row);
  const std::uint64_t per_step =
      std::uint64_t{config_.program->batch()} * std::max<std::uint32_t>(1, config_.world_size);
  out->set_step((at.row + per_step - 1) / per_step);
  std::uint32_t free = 0;
  std::uint32_t ready = 0;
  std::uint32_t held = 0;
  for (const Slot& slot : slots_) {
    free += slot.state == State::kFree || slot.state == State::kUnreserved ? 1 : 0;
    ready += slot.state == State::kComplete ? 1 : 0;
    held += slot.state == State::kPublished ? 1 : 0;
  }
  // A published batch that no consumer has taken yet is ready, not held.
  std::uint32_t waiting = 0;
  for (const Member& member : members_) {
    waiting = std::max(waiting, std::min(held, member.consumer->mailbox().Undelivered()));
  }
  out->set_slots_free(free);
  out->set_slots_ready(ready + waiting);
  out->set_slots_held(held - waiting);
  out->set_slots_filling(config_.slots - free - ready - held);
  out->set_rows_delivered(rows_delivered_);
  out->set_batches_delivered(batches_delivered_);
  out->set_completed_out_of_order(out_of_order_);
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto now = Clock::now();
  out->set_consumer_wait_seconds(
      seconds(empty_time_ +
              (empty_since_ == Clock::time_point{} ? Clock::duration{} : now - empty_since_)));
  out->set_producer_blocked_seconds(seconds(
      full_time_ + (full_since_ == Clock::time_point{} ? Clock::duration{} : now - full_since_)));
  if (error_) out->set_error(error_->message());
  for (const Member& member : members_) {
    auto* consumer = out->add_consumer();
    consumer->set_id(member.consumer->id());
    consumer->set_pid(member.consumer->peer().pid);
    consumer->set_uid(member.consumer->peer().uid);
    consumer->set_host(member.consumer->peer().host);
    consumer->set_batches_delivered(member.consumer->batches_delivered);
    consumer->set_held(member.consumer->held);
  }
}

}  // namespace stoker::stream
