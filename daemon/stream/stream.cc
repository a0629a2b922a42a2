#include "daemon/stream/stream.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "config/spec_hash.h"
#include "daemon/base/log.h"
#include "daemon/stream/frozen_shards.h"
#include "daemon/stream/spec_plan.h"

namespace stoker::stream {
namespace {

constexpr std::uint64_t kRunBytes = 64 << 10;
constexpr std::uint64_t kFramingBytes = 16;
constexpr std::size_t kEpochsKept = 3;

plan::Shuffle ToPlan(v1::Order::Shuffle shuffle) {
  switch (shuffle) {
    case v1::Order::WINDOW:
      return plan::Shuffle::kWindow;
    case v1::Order::GLOBAL:
      return plan::Shuffle::kGlobal;
    default:
      return plan::Shuffle::kNone;
  }
}

std::uint64_t DrawSeed() {
  std::uint64_t seed = 0;
  while (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
  }
  return seed;
}

}  // namespace

Stream::Stream(v1::StreamSpec spec, uid_t opener, bool by_attach, Environment* environment)
    : spec_(std::move(spec)), opener_(opener), by_attach_(by_attach), environment_(environment) {}

Status Stream::Open(std::stop_token stop, const v1::StoredStream* stored) {
  const std::uint64_t seed = spec_.order().has_seed() ? spec_.order().seed()
                             : stored != nullptr      ? stored->seed()
                                                      : DrawSeed();
  {
    std::lock_guard lock(mutex_);
    seed_ = seed;
    seed_drawn_ = !spec_.order().has_seed();
  }
  Tables tables;
  if (stored != nullptr) {
    STOKER_TRY(RestoreTables(*stored, stop, &tables));
  } else {
    auto opened = OpenTables(seed, stop, nullptr);
    if (!opened.ok()) return opened.status();
    tables = std::move(*opened);
  }
  const auto& dataset = *tables.data->dataset;
  auto program = pipeline::RowProgram::Compile(spec_, {dataset.longest()});
  if (!program.ok()) return program.status();

  const std::uint64_t row_bytes = dataset.mean_bytes() + kFramingBytes;
  const auto rows = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kRunBytes / row_bytes, 1, spec_.batch().size()));
  auto reservation = environment_->budget->Reserve(
      dataset.index_bytes() + dataset.scratch_bytes() + tables.data->plan->memory_bytes(),
      "stream \"" + spec_.name() + "\": index and windows");
  if (!reservation.ok()) return reservation.status();
  if (spec_.delivery().mode() != v1::Delivery::BROADCAST || spec_.delivery().expect() <= 1) {
    STOKER_TRY(plan::CheckNotEmpty(
        plan::Grid{tables.data->plan->rows(), spec_.batch().size(), 1, RemainderOf(spec_), 0}));
  }
  for (const auto& place : dataset.skipped_damage()) {
    pipeline::BadRow bad;
    bad.id = plan::MakeRowId(place.shard, place.damage.record);
    bad.offset = place.damage.offset;
    bad.fault = place.damage.fault;
    bad.detail = place.damage.detail;
    counters_->AddBad(bad, dataset.path(place.shard), 0);
  }
  for (const auto& note : dataset.notes()) LogWarning("stream \"" + spec_.name() + "\": " + note);

  {
    std::lock_guard lock(data_mutex_);
    tables_ = tables;
    if (stored == nullptr) by_epoch_[0] = tables;
  }
  if (environment_->state != nullptr) {
    OpenJournal(stored != nullptr);
    Store(ToStore());
  }
  std::lock_guard lock(mutex_);
  program_ = std::move(*program);
  rows_per_run_ = rows;
  reservation_ = std::move(*reservation);
  reservation_.Touched(dataset.index_bytes());
  ready_ = true;
  return Status();
}

Stream::Tables Stream::CurrentTables() const {
  std::lock_guard lock(data_mutex_);
  return tables_;
}

Result<Stream::Tables> Stream::OpenTables(std::uint64_t seed, std::stop_token stop,
                                          const v1::StoredManifest* frozen) {
  const auto& source = spec_.source(0);
  pipeline::DatasetOptions options;
  options.cache_dir = environment_->cache_dir;
  options.data_roots = environment_->data_roots;
  options.roots_required = !environment_->data_roots.empty();
  options.index_threads = environment_->pool->workers();
  options.keep_damage = spec_.order().shuffle() != v1::Order::GLOBAL;
  options.progress_bytes = &indexed_bytes_;
  options.stop = stop;
  options.cycle = spec_.order().interleave().cycle();
  options.window_bytes = spec_.order().window().window_bytes();
  if (spec_.order().shuffle() == v1::Order::WINDOW) {
    options.window_rows = spec_.order().window().rows();
  }
  if (frozen != nullptr) options.frozen = FrozenShards(*frozen);
  auto dataset = pipeline::Dataset::Open(source, options);
  if (!dataset.ok()) return dataset.status();
  if ((*dataset)->compressed() && spec_.order().shuffle() == v1::Order::GLOBAL) {
    return Status(Code::kInvalidArgument,
                  "order.shuffle: GLOBAL needs uncompressed shards, for it reads records in any "
                  "order; use WINDOW, or store the shards uncompressed");
  }
  auto plan = MakePlan(**dataset, seed);
  if (!plan.ok()) return plan.status();
  auto data = std::make_shared<pipeline::EpochData>();
  data->dataset = *dataset;
  data->plan = std::move(*plan);
  return Tables{std::move(data), (*dataset)->paths_hash(), (*dataset)->data_hash()};
}

Result<std::shared_ptr<const plan::EpochPlan>> Stream::MakePlan(const pipeline::Dataset& dataset,
                                                                std::uint64_t seed) const {
  const auto& order = spec_.order();
  plan::OrderOptions options;
  options.shuffle = ToPlan(order.shuffle());
  options.seed = seed;
  options.reshuffle = !order.has_reshuffle() || order.reshuffle();
  if (order.window().has_rows()) options.window_rows = order.window().rows();
  const bool windowed = options.shuffle == plan::Shuffle::kWindow;
  options.cycle = order.interleave().has_cycle() ? order.interleave().cycle() : (windowed ? 16 : 1);
  options.block = order.interleave().has_block() ? order.interleave().block() : 1;
  if (order.has_split()) {
    options.split_of = order.split().of();
    options.split_part = order.split().part();
  }
  options.skip = order.skip();
  if (order.has_take()) options.take = order.take();
  return plan::EpochPlan::Make(options, dataset.plan_records());
}

std::shared_ptr<const pipeline::EpochData> Stream::Ready(std::uint64_t epoch) const {
  std::lock_guard lock(data_mutex_);
  if (spec_.source(0).refresh() == v1::Source::NEVER) return tables_.data;
  const auto it = by_epoch_.find(epoch);
  return it == by_epoch_.end() ? nullptr : it->second.data;
}

Status Stream::Prepare(std::uint64_t epoch) {
  auto tables = OpenTables(seed_, {}, nullptr);
  if (!tables.ok()) return tables.status();
  {
    std::lock_guard lock(data_mutex_);
    if (by_epoch_.emplace(epoch, *tables).second) tables_ = std::move(*tables);
    while (by_epoch_.size() > kEpochsKept) by_epoch_.erase(by_epoch_.begin());
  }
  if (environment_->state != nullptr) Store(ToStore());
  return Status();
}

// Where the consumer begins, by its token, by what it says outright, or by the default.
Result<Position> Stream::StartLocked(const AttachAsk& ask, bool alone) {
  if (ask.token) {
    plan::Token want = IdentityLocked();
    const plan::Token& have = *ask.token;
    bool adopted = false;
    if (have.seed != seed_ && seed_drawn_ && alone) {
      // The seed was ours to draw, and this run already has one.
      const Tables tables = CurrentTables();
      auto plan = MakePlan(*tables.data->dataset, have.seed);
      if (!plan.ok()) return plan.status();
      auto data = std::make_shared<pipeline::EpochData>(*tables.data);
      data->plan = std::move(*plan);
      std::lock_guard lock(data_mutex_);
      tables_.data = std::move(data);
      by_epoch_.clear();
      seed_ = have.seed;
      want.seed = have.seed;
      adopted = true;
    }
    STOKER_TRY(plan::CheckToken(have, want));
    if (have.seed != seed_) {
      return Status(Code::kFailedPrecondition,
                    "token: its seed is " + std::to_string(have.seed) +
                        ", the stream drew another that its consumers use");
    }
    if (adopted && environment_->state != nullptr) Store(ToStore());
    const Position start{have.epoch, have.row};
    if (!alone) STOKER_TRY(CheckGridLocked(ask, start));
    return start;
  }
  if (ask.start == AttachAsk::Start::kBegin && !alone) {
    return Status(Code::kFailedPrecondition,
                  "stream \"" + spec_.name() +
                      "\": start: BEGIN is refused while other consumers are attached");
  }
  if (ask.start == AttachAsk::Start::kBegin) return Position{};
  if (alone && ask.start == AttachAsk::Start::kDefault) {
    seats_.clear();
    return Position{};
  }
  const auto seat = seats_.find(broadcast() ? 0 : ask.rank);
  if (seat != seats_.end()) return seat->second.left_at;
  return job_start_.value_or(Position{});
}

// All ranks of a job must step over the same grid: from the same row, whole steps apart.
Status Stream::CheckGridLocked(const AttachAsk& ask, const Position& start) const {
  if (broadcast() || !job_start_) return Status();
  const std::uint64_t step = std::uint64_t{spec_.batch().size()} * ask.world_size;
  const std::uint64_t low = std::min(start.row, job_start_->row);
  const std::uint64_t high = std::max(start.row, job_start_->row);
  // Ranks that come back after a restart may stand on both sides of an epoch's end. The later epoch
  // is stepped from its row 0; where the earlier one was begun, a token of the same grid knows.
  const bool same_grid =
      ask.token && ask.token->world == ask.world_size && ask.token->batch == spec_.batch().size();
  const bool aligned = start.epoch == job_start_->epoch  ? (high - low) % step == 0
                       : start.epoch > job_start_->epoch ? start.row % step == 0
                                                         : same_grid && job_start_->row % step == 0;
  if (aligned) return Status();
  return Status(Code::kFailedPrecondition, "stream \"" + spec_.name() +
                                               "\": this consumer's position is " + start.Text() +
                                               ", the other ranks began at " + job_start_->Text() +
                                               "; all ranks must bring the same position");
}

std::uint64_t Stream::LaneBytes() const {
  return program_->slot_plan().slot_bytes() * spec_.delivery().slots();
}

plan::Token Stream::IdentityLocked() const {
  const auto parts = config::HashParts(spec_);
  const Tables tables = CurrentTables();
  plan::Token token;
  token.seed = seed_;
  token.batch = spec_.batch().size();
  token.world = world_size_ == 0 ? 1 : world_size_;
  token.source_hash = parts.source;
  token.order_hash = parts.order;
  token.tensors_hash = parts.tensors;
  token.batch_hash = parts.batch;
  token.delivery_hash = parts.delivery;
  token.paths_hash = tables.paths_hash;
  token.data_hash = tables.data_hash;
  return token;
}

plan::Grid Stream::GridOf(std::uint32_t world_size) const {
  return {CurrentTables().data->plan->rows(), spec_.batch().size(), world_size, RemainderOf(spec_),
          0};
}

void Stream::Close(const Status& why) {
  std::map<std::uint32_t, std::shared_ptr<Lane>> lanes;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    lanes.swap(lanes_);
  }
  for (const auto& [rank, lane] : lanes) {
    lane->Stop(why);
    environment_->pool->Remove(lane.get());
  }
}

std::size_t Stream::ConsumersLocked() const {
  std::size_t sum = 0;
  for (const auto& [rank, lane] : lanes_) sum += lane->consumers();
  return sum;
}

std::size_t Stream::consumers() const {
  std::lock_guard lock(mutex_);
  return ConsumersLocked();
}

std::optional<Peer> Stream::AnyHolder() const {
  std::lock_guard lock(mutex_);
  for (const auto& [rank, lane] : lanes_) {
    if (auto holder = lane->Holder()) return holder;
  }
  return std::nullopt;
}

v1::StreamStatus Stream::Describe() const {
  v1::StreamStatus status;
  std::lock_guard lock(mutex_);
  status.set_name(spec_.name());
  status.set_opened_by_attach(by_attach_);
  if (!ready_) {
    status.set_state(v1::StreamStatus::INDEXING);
    return status;
  }
  status.set_state(closed_ ? v1::StreamStatus::CLOSING : v1::StreamStatus::READY);
  status.set_index_progress(1.0);
  const Tables tables = CurrentTables();
  const auto& dataset = *tables.data->dataset;
  status.set_seed(seed_);
  status.set_seed_drawn(seed_drawn_);
  status.set_shards(dataset.manifest().shards.size());
  status.set_empty_shards(dataset.manifest().empty_shards);
  status.set_records(dataset.records());
  const plan::Grid grid = GridOf(broadcast() || world_size_ == 0 ? 1 : world_size_);
  status.set_rows_per_epoch(grid.rows_per_epoch);
  status.set_steps_per_epoch(plan::StepsLeft(grid));
  status.set_dropped_rows_per_epoch(plan::DroppedRows(grid));
  std::uint64_t arena_bytes = 0;
  for (const auto& [rank, lane] : lanes_) {
    lane->Describe(status.add_lane());
    arena_bytes += lane->arena_bytes();
  }
  status.set_arena_bytes(arena_bytes);
  status.set_index_bytes(dataset.index_bytes());
  for (const auto& note : dataset.notes()) status.add_note(note);
  counters_->Describe(status.mutable_counters());
  counters_->DescribeBad(&status);
  status.mutable_counters()->set_bytes_read(dataset.bytes_read());
  status.mutable_counters()->set_reread(dataset.rereads());
  status.set_plan_id(plan::PlanId(seed_, IdentityLocked().order_hash, tables.data_hash));
  return status;
}

v1::ExplainResponse Stream::Explain(std::uint32_t world_size) const {
  v1::ExplainResponse out;
  std::lock_guard lock(mutex_);
  const Tables tables = CurrentTables();
  const auto& dataset = *tables.data->dataset;
  for (auto& info : program_->Describe()) *out.add_tensor() = std::move(info);
  const plan::Grid grid = GridOf(broadcast() ? 1 : std::max(1u, world_size));
  out.set_shards(dataset.manifest().shards.size());
  out.set_records(dataset.records());
  out.set_rows_per_epoch(grid.rows_per_epoch);
  const Status empty = plan::CheckNotEmpty(grid);
  out.set_steps_per_epoch(empty.ok() ? plan::StepsLeft(grid) : 0);
  out.set_dropped_rows_per_epoch(plan::DroppedRows(grid));
  out.set_slot_bytes(program_->slot_plan().slot_bytes());
  out.set_arena_bytes(LaneBytes());
  out.set_budget_bytes(LaneBytes() + reservation_.bytes());
  const MemoryAllowance free = environment_->budget->Free();
  out.set_budget_free_bytes(free.free_bytes);
  out.set_budget_limit(free.limit);
  for (const auto& note : dataset.notes()) out.add_note(note);
  if (!empty.ok()) out.add_note(empty.message());
  if (seed_drawn_) out.add_note("order.seed is not given: one is drawn when the stream opens");
  if (out.arena_bytes() > free.free_bytes) {
    out.add_note("the arena does not fit: " + std::to_string(free.free_bytes) +
                 " bytes are free under " + free.limit);
  }
  if (spec_.batch().remainder() == v1::Batch::PARTIAL && grid.world > 1 &&
      grid.rows_per_epoch % (std::uint64_t{grid.batch} * grid.world) < grid.world &&
      grid.rows_per_epoch % (std::uint64_t{grid.batch} * grid.world) > 0) {
    out.add_note(
        "the last step of an epoch has fewer rows than ranks: some ranks get a batch of "
        "zero rows; remainder DROP or PAD avoids that");
  }
  if (dataset.compressed()) {
    out.add_note("compressed shards are inflated from their start when a position is sought");
  }
  *out.mutable_spec() = spec_;
  return out;
}

}  // namespace stoker::stream
