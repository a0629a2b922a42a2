// Which rows a batch holds, from the plan alone.
#include "daemon/base/philox.h"
#include "daemon/stream/stream.h"

namespace stoker::stream {
namespace {

// What the random ops of the spec draw for a row. An op's number in the counter is its place among
// all ops of the spec.
void AddDraws(const v1::StreamSpec& spec, std::uint64_t seed, std::int64_t row_id,
              std::uint64_t epoch, v1::WhichRow* row) {
  std::uint32_t number = 0;
  for (const auto& tensor : spec.tensor()) {
    for (const auto& op : tensor.op()) {
      const std::uint32_t own = number++;
      const bool horizontal = op.has_random_flip_horizontal();
      const bool flips = horizontal || op.has_random_flip_vertical();
      if (!flips && !op.has_random_crop() && !op.has_random_resized_crop()) continue;
      auto* draw = row->add_draw();
      draw->set_tensor(tensor.name());
      draw->set_op(v1::Op::descriptor()->FindFieldByNumber(op.op_case())->name());
      draw->set_number(own);
      RowRandom words(seed, row_id, static_cast<std::uint32_t>(epoch), own);
      for (int i = 0; i < 4; ++i) draw->add_word(words.Next());
      if (!flips) continue;
      const auto& flip = horizontal ? op.random_flip_horizontal() : op.random_flip_vertical();
      const float probability = flip.has_probability() ? flip.probability() : 0.5f;
      RowRandom again(seed, row_id, static_cast<std::uint32_t>(epoch), own);
      draw->set_applied(again.NextFloat() < probability);
    }
  }
}

}  // namespace

Result<v1::WhichResponse> Stream::Which(const v1::WhichRequest& request) const {
  std::unique_lock lock(mutex_);
  if (!ready_) return Status(Code::kUnavailable, "stream \"" + spec_.name() + "\" is opening");
  const std::uint64_t seed = seed_;
  const std::uint32_t attached = std::max(1u, world_size_);
  lock.unlock();
  const auto data = Ready(request.epoch());
  if (data == nullptr) {
    return Status(Code::kFailedPrecondition,
                  "the shards of epoch " + std::to_string(request.epoch()) +
                      " are looked up when it begins (refresh: EPOCH), and are not known");
  }
  plan::Grid grid = GridOf(broadcast()                 ? 1
                           : request.world_size() == 0 ? attached
                                                       : request.world_size());
  grid.rows_per_epoch = data->plan->rows();
  grid.origin = request.origin();
  if (spec_.order().has_repeat() && request.epoch() >= spec_.order().repeat()) {
    return Status(Code::kOutOfRange, "the stream has " + std::to_string(spec_.order().repeat()) +
                                         " epochs, numbered from 0");
  }
  if (request.rank() >= grid.world) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(request.rank()) +
                                              " is not below world_size " +
                                              std::to_string(grid.world));
  }
  STOKER_TRY(plan::CheckNotEmpty(grid));
  const std::uint64_t steps = plan::StepsLeft(grid);
  const std::uint64_t first_step = steps == 0 ? 0 : plan::StepAt(grid, 0).number;
  if (request.step() < first_step || request.step() - first_step >= steps) {
    return Status(Code::kOutOfRange, "from row " + std::to_string(grid.origin) + " epoch " +
                                         std::to_string(request.epoch()) + " has steps " +
                                         std::to_string(first_step) + " to " +
                                         std::to_string(first_step + steps) + ", not included");
  }
  const plan::Step step = plan::StepAt(grid, request.step() - first_step);
  const plan::RankRows rows = plan::RowsOf(grid, step, request.rank());
  std::vector<plan::RowId> ids(rows.count);
  data->plan->Rows(request.epoch(), rows.first, ids);

  v1::WhichResponse response;
  response.set_seed(seed);
  response.set_first_row(rows.first);
  response.set_world_size(grid.world);
  response.set_filler(rows.filler);
  for (std::uint32_t i = 0; i < rows.count; ++i) {
    const auto shard = static_cast<std::uint32_t>(plan::ShardOf(ids[i]));
    const std::uint64_t record = plan::RecordOf(ids[i]);
    const io::Damage* damage = data->dataset->DamageAt(shard, record);
    auto* row = response.add_row();
    row->set_row(rows.first + i);
    row->set_row_id(ids[i]);
    row->set_shard(data->dataset->path(shard));
    row->set_record(record);
    row->set_offset(damage != nullptr ? damage->offset
                                      : data->dataset->shard(shard).index().At(record).offset);
    AddDraws(spec_, seed, ids[i], request.epoch(), row);
  }
  return response;
}

}  // namespace stoker::stream
