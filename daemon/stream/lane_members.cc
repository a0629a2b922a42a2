// How consumers that are not where a lane is join it, and how those that hold it up leave it.
#include <algorithm>

#include "daemon/stream/lane.h"

namespace stoker::stream {
namespace {

constexpr auto kGatherTime = std::chrono::seconds(2);
constexpr std::uint64_t kMostAhead = 65536;  // steps that a consumer may be ahead of its lane

}  // namespace

// Whether every batch from `at` up to the lane's position is still in the arena.
bool Lane::BatchesAgainLocked(const Position& at, std::vector<Slot*>* again) {
  for (Slot& slot : slots_) {
    if (slot.state == State::kPublished && slot.at >= at) again->push_back(&slot);
  }
  std::sort(again->begin(), again->end(),
            [](const Slot* a, const Slot* b) { return a->sequence < b->sequence; });
  const bool whole = !again->empty() && again->front()->at == at &&
                     again->back()->sequence - again->front()->sequence + 1 == again->size() &&
                     again->back()->sequence + 1 == publish_sequence_;
  if (!whole) again->clear();
  return whole;
}

void Lane::HandAgainLocked(Member* member, const std::vector<Slot*>& again) {
  for (Slot* slot : again) {
    slot->holders |= member->bit;
    ++member->consumer->held;
    ++member->consumer->batches_delivered;
    PushLocked(*member,
               shm::BatchWord(static_cast<std::uint32_t>(slot - slots_.data()), slot->generation));
    if (slot->ends_stream) {
      EndLocked(*member, slot->at.epoch);
    } else if (slot->ends_epoch) {
      PushLocked(*member, shm::EndOfEpochWord(slot->at.epoch));
    }
  }
}

Status Lane::CheckJoinLocked(const Position& at, const Position& now) const {
  const auto steps = at < now ? StepsBetweenLocked(at, now) : StepsBetweenLocked(now, at);
  // Consumers of the lane that this one goes on from come back when they have used up what they
  // had.
  const bool comes_back = !started_ || returning_ > 0;
  const std::uint64_t most = at > now || comes_back ? kMostAhead : config_.catch_up;
  if (steps && *steps <= most) return Status();
  const std::string places = "stream \"" + config_.stream + "\" is at " + now.Text() +
                             " and its consumer asked for " + at.Text();
  if (!steps) return Status(Code::kFailedPrecondition, places + ", which is between its steps");
  return Status(Code::kFailedPrecondition,
                places + (at < now ? ", which is more than delivery.catch_up: " : ", more than ") +
                    std::to_string(most) + " batches " + (at < now ? "behind" : "ahead") +
                    "; join without a token");
}

// Steps from one position to a later one; nullopt where no whole number of steps leads there.
std::optional<std::uint64_t> Lane::StepsBetweenLocked(Position from, const Position& to) const {
  std::uint64_t steps = 0;
  for (std::uint64_t epochs = 0; from.epoch < to.epoch; ++epochs) {
    if (steps > kMostAhead || epochs > kMostAhead) return kMostAhead + 1;
    const auto data = config_.ready(from.epoch);
    if (data == nullptr) return std::nullopt;
    const plan::Grid grid{data->plan->rows(), config_.program->batch(), config_.world_size,
                          config_.remainder, from.row};
    steps += from.row < grid.rows_per_epoch ? plan::StepsLeft(grid) : 0;
    from = {from.epoch + 1, 0};
  }
  const std::uint64_t per_step = std::uint64_t{config_.program->batch()} * config_.world_size;
  if (to.row < from.row || (to.row - from.row) % per_step != 0) return std::nullopt;
  return steps + (to.row - from.row) / per_step;
}

// Goes back to `to`. Whoever is here already has what lies before the lane's position; batches that
// are being made are made again.
void Lane::RewindLocked(const Position& to) {
  const Position now = PositionLocked();
  for (Member& member : members_) member.from = std::max(member.from, now);
  if (batches_delivered_ > 0) {
    fresh_from_ = std::max(fresh_from_, now);
  } else {
    entries_.clear();  // nothing was delivered: this is where the lane begins
  }
  for (Slot& slot : slots_) {
    switch (slot.state) {
      case State::kRows:
      case State::kPlacing:
        slot.discarded = true;
        slot.pending -= slot.runs - slot.next_run;
        slot.runs = slot.next_run;
        if (slot.pending == 0) FreeLocked(&slot);
        break;
      case State::kLayingOut:
      case State::kFinishing:
        slot.discarded = true;
        break;
      case State::kComplete:
        FreeLocked(&slot);
        break;
      default:
        break;
    }
  }
  publish_sequence_ = next_sequence_;
  data_ = nullptr;
  epoch_ = to.epoch;
  enter_row_ = to.row;
  planned_all_ = config_.repeat && epoch_ >= *config_.repeat;
}

bool Lane::GatheredLocked() const {
  return config_.gather == 0 || members_.size() >= config_.gather ||
         Clock::now() - made_at_ >= kGatherTime;
}

void Lane::Tick() {
  std::lock_guard lock(mutex_);
  DrainLocked();
  if (!started_) PublishLocked();
}

std::vector<std::uint64_t> Lane::Overdue() const {
  std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> ids;
  if (config_.max_lag_ms == 0 || stopped_ || error_ || full_since_ == Clock::time_point{} ||
      Clock::now() - full_since_ < std::chrono::milliseconds(config_.max_lag_ms)) {
    return ids;
  }
  const bool starving = std::any_of(members_.begin(), members_.end(),
                                    [](const Member& m) { return m.consumer->held == 0; });
  if (!starving) return ids;
  const Slot* oldest = nullptr;
  for (const Slot& slot : slots_) {
    if (slot.state != State::kPublished) continue;
    if (oldest == nullptr || slot.sequence < oldest->sequence) oldest = &slot;
  }
  for (const Member& member : members_) {
    if (oldest != nullptr && (oldest->holders & member.bit) != 0) {
      ids.push_back(member.consumer->id());
    }
  }
  return ids;
}

void Lane::Evict(const std::vector<std::uint64_t>& ids, const Status& evicted,
                 const Status& others) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  quota_.reset();
  for (Member& member : members_) {
    const bool out = std::find(ids.begin(), ids.end(), member.consumer->id()) != ids.end();
    member.consumer->TellClosing(out ? evicted : others);
    PushLocked(member, shm::ClosingWord());
  }
}

std::uint64_t Lane::DeadHolder() const {
  std::lock_guard lock(mutex_);
  if (members_.empty() || !members_.front().consumer->gone()) return 0;
  return members_.front().consumer->id();
}

void Lane::Grow(Reservation reservation) {
  {
    std::lock_guard lock(mutex_);
    growth_ = std::move(reservation);
    paid_slots_ = config_.slots;
  }
  wake_();
}

bool Lane::short_of_slots() const {
  std::lock_guard lock(mutex_);
  return paid_slots_ < config_.slots;
}

}  // namespace stoker::stream
