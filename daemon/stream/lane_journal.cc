// What a lane writes in its stream's journal. Every call under the lane's lock.
#include "daemon/stream/lane.h"

namespace stoker::stream {

void Lane::BeginEntryLocked(std::uint64_t row) {
  if (config_.journal == nullptr) return;
  const std::uint64_t oldest = PositionLocked().epoch;
  std::erase_if(entries_, [oldest](const auto& e) { return e.first < oldest; });
  // A lane that went back for one consumer goes on with the entries that it has.
  if (const auto it = entries_.find(epoch_); it != entries_.end()) {
    entry_ = it->second;
    return;
  }
  state::JournalRecord start;
  start.run = run_;
  start.epoch = epoch_;
  start.start_row = row;
  start.rank = config_.rank;
  start.world_size = config_.world_size;
  start.batch = config_.program->batch();
  start.broadcast = !config_.exclusive;
  start.consumers = ToComeBackLocked();
  entry_ = config_.journal->Begin(start);
  if (entry_ != nullptr) entries_[epoch_] = entry_;
}

// How many the next lane is to wait for, should the daemon die now: nobody before this one begins.
std::uint32_t Lane::ToComeBackLocked() const {
  if (!started_ && config_.gather == 0) return 0;
  return static_cast<std::uint32_t>(members_.size()) + returning_;
}

void Lane::CountConsumersLocked() {
  if (entry_ != nullptr) entry_->consumers.store(ToComeBackLocked(), std::memory_order_relaxed);
}

// Stored before the consumers are told: what they can have is never missing here.
void Lane::JournalDeliveryLocked(const Slot& slot) {
  state::JournalEntry* entry = slot.entry;
  if (entry == nullptr) return;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  std::uint64_t skipped = 0;
  std::uint64_t replaced = 0;
  for (const pipeline::BadRow& bad : slot.outcome.bad) ++(bad.replaced ? replaced : skipped);
  entry->rows.store(entry->rows.load(kRelaxed) + slot.outcome.rows, kRelaxed);
  entry->batches.store(entry->batches.load(kRelaxed) + 1, kRelaxed);
  entry->skipped.store(entry->skipped.load(kRelaxed) + skipped, kRelaxed);
  entry->replaced.store(entry->replaced.load(kRelaxed) + replaced, kRelaxed);
  if (slot.ends_epoch) entry->ended.store(1, kRelaxed);
  entry->delivered_row.store(slot.after_row, std::memory_order_release);
}

// Released is the first step of the epoch that somebody still holds, or what was delivered.
void Lane::JournalReleaseLocked(state::JournalEntry* entry) {
  if (entry == nullptr) return;
  std::uint64_t row = entry->delivered_row.load(std::memory_order_relaxed);
  for (const Slot& slot : slots_) {
    if (slot.state == State::kPublished && slot.entry == entry) row = std::min(row, slot.at.row);
  }
  entry->released_row.store(row, std::memory_order_release);
}

}  // namespace stoker::stream
