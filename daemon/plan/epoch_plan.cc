#include "daemon/plan/epoch_plan.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "daemon/base/philox.h"
#include "daemon/plan/interleave.h"
#include "daemon/plan/permutation.h"
#include "daemon/plan/selection.h"

namespace stoker::plan {
namespace {

// What a permutation is for, as an op number of the random counter.
enum Purpose : std::uint32_t {
  kGlobalOrder = kRowOps,
  kShardOrder,
  kWindowOrder,
  kSpareOrder,
};

Permutation Keyed(std::uint64_t n, std::uint64_t seed, std::uint64_t number, std::uint64_t epoch,
                  Purpose purpose) {
  return Permutation(n, RowRandom(seed, static_cast<std::int64_t>(number),
                                  static_cast<std::uint32_t>(epoch), purpose));
}

}  // namespace

struct EpochPlan::Impl {
  Impl(const OrderOptions& o, Selection s) : options(o), selection(std::move(s)) {}

  // The table of an epoch; built by the first who asks, while the others wait.
  struct Table {
    std::once_flag once;
    std::optional<Interleave> interleave;
  };
  struct Kept {
    std::uint64_t epoch = 0;
    std::uint64_t last_use = 0;
    std::shared_ptr<Table> table;
  };

  std::uint64_t OrderEpoch(std::uint64_t epoch) const { return options.reshuffle ? epoch : 0; }
  std::shared_ptr<const Table> TableOf(std::uint64_t epoch);
  void GlobalRows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) const;
  void WindowRows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out);

  const OrderOptions options;
  const Selection selection;
  std::optional<Interleave> stored_order;  // NONE with a cycle above 1

  std::mutex mutex;  // guards what follows; held for a look-up, never for a build
  std::array<Kept, kEpochsKept> kept;
  std::uint64_t uses = 0;
};

std::shared_ptr<const EpochPlan::Impl::Table> EpochPlan::Impl::TableOf(std::uint64_t epoch) {
  std::shared_ptr<Table> table;
  {
    const std::lock_guard lock(mutex);
    Kept* slot = &kept[0];
    for (Kept& k : kept) {
      if (k.table != nullptr && k.epoch == epoch) {
        slot = &k;
        break;
      }
      if (k.last_use < slot->last_use) slot = &k;
    }
    if (slot->table == nullptr || slot->epoch != epoch) {
      slot->epoch = epoch;
      slot->table = std::make_shared<Table>();
    }
    slot->last_use = ++uses;
    table = slot->table;
  }
  std::call_once(table->once, [&] {
    const auto shards = selection.shards();
    std::vector<std::int64_t> drawn(shards);
    Keyed(shards, options.seed, 0, epoch, kShardOrder).Run(0, drawn);
    const std::vector<std::uint32_t> order(drawn.begin(), drawn.end());
    table->interleave.emplace(selection, order, options.cycle, options.block);
  });
  return table;
}

void EpochPlan::Impl::GlobalRows(std::uint64_t epoch, std::uint64_t first,
                                 std::span<RowId> out) const {
  Keyed(selection.rows(), options.seed, 0, epoch, kGlobalOrder).Run(first, out);
  selection.Locate(out);
}

void EpochPlan::Impl::WindowRows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) {
  const std::shared_ptr<const Table> table = TableOf(epoch);
  while (!out.empty()) {
    const std::uint64_t window = first / options.window_rows;
    const std::uint64_t begin = window * options.window_rows;
    const std::uint64_t size = std::min(options.window_rows, selection.rows() - begin);
    const auto here = out.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), begin + size - first)));
    Keyed(size, options.seed, window, epoch, kWindowOrder).Run(first - begin, here, begin);
    table->interleave->Gather(begin, begin + size, here);
    first += here.size();
    out = out.subspan(here.size());
  }
}

EpochPlan::EpochPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EpochPlan::~EpochPlan() = default;

Result<std::shared_ptr<const EpochPlan>> EpochPlan::Make(const OrderOptions& options,
                                                         std::vector<std::uint64_t> shard_records) {
  OrderOptions order = options;
  if (order.cycle == 0) order.cycle = order.shuffle == Shuffle::kWindow ? 16 : 1;
  if (order.block == 0) return Status(Code::kInvalidArgument, "interleave: block is 0");
  if (order.window_rows == 0) return Status(Code::kInvalidArgument, "window: rows is 0");
  auto selection =
      Selection::Make({order.split_of, order.split_part, order.skip, order.take}, shard_records);
  if (!selection.ok()) return selection.status();

  auto impl = std::make_unique<Impl>(order, std::move(*selection));
  if (order.shuffle == Shuffle::kNone && order.cycle > 1) {
    std::vector<std::uint32_t> as_listed(shard_records.size());
    std::iota(as_listed.begin(), as_listed.end(), 0u);
    impl->stored_order.emplace(impl->selection, as_listed, order.cycle, order.block);
  }
  return std::shared_ptr<const EpochPlan>(new EpochPlan(std::move(impl)));
}

std::uint64_t EpochPlan::rows() const { return impl_->selection.rows(); }

void EpochPlan::Rows(std::uint64_t epoch, std::uint64_t first, std::span<RowId> out) const {
  if (out.empty()) return;
  switch (impl_->options.shuffle) {
    case Shuffle::kGlobal:
      return impl_->GlobalRows(impl_->OrderEpoch(epoch), first, out);
    case Shuffle::kWindow:
      return impl_->WindowRows(impl_->OrderEpoch(epoch), first, out);
    case Shuffle::kNone:
      if (impl_->stored_order) return impl_->stored_order->Run(first, out);
      return impl_->selection.Run(first, out);
  }
}

RowId EpochPlan::Spare(std::uint64_t epoch, std::uint64_t row, std::uint32_t k) const {
  const std::uint64_t n = impl_->selection.rows();
  const Permutation spares = Keyed(n, impl_->options.seed, row, epoch, kSpareOrder);
  return impl_->selection.At(spares.At((k - 1) % n));
}

std::uint64_t EpochPlan::memory_bytes() const {
  std::uint64_t bytes = sizeof(*this) + sizeof(Impl) + impl_->selection.memory_bytes();
  if (impl_->stored_order) bytes += impl_->stored_order->memory_bytes();
  if (impl_->options.shuffle == Shuffle::kWindow) {
    bytes += kEpochsKept * (sizeof(Impl::Table) +
                            Interleave::MaxBytes(impl_->selection.shards(), impl_->options.cycle));
  }
  return bytes;
}

}  // namespace stoker::plan
