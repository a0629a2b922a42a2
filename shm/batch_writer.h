// SlotPlan and BatchWriter: how the daemon lays a batch out in a slot.
//
// A SlotPlan is computed once a stream: where each tensor's payload lies and how long a slot is.
// A BatchWriter fills one slot: payloads first, wherever workers like; shapes and header last.
// What it needs later it keeps to itself: a slot is never read back.
//
// Thread-safety: a SlotPlan is immutable. Payload() from any thread between Begin() and Finish();
//   the other methods from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shm/layout.h"

namespace stoker::shm {

struct TensorSpec {
  std::string name;
  std::uint8_t dtype_code = 0;
  std::uint8_t dtype_bits = 0;
  TensorRole role = TensorRole::kDense;
  std::vector<std::int64_t> shape;  // of a full batch; the first side is the largest it can be
  std::uint64_t max_bytes = 0;      // room in the slot
  int parent = -1;
};

class SlotPlan {
 public:
  SlotPlan() = default;

  // nullopt where there are too many tensors or sides, or the sizes overflow.
  static std::optional<SlotPlan> Make(std::vector<TensorSpec> tensors, std::uint32_t batch);

  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::uint32_t batch() const { return batch_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tensors_.size()); }
  const TensorSpec& tensor(std::uint32_t i) const { return tensors_[i]; }
  std::uint64_t payload_offset(std::uint32_t i) const { return offsets_[i]; }
  const std::string& names() const { return names_; }

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<std::uint64_t> offsets_;
  std::string names_;
  std::uint32_t batch_ = 0;
  std::uint64_t slot_bytes_ = 0;
};

// The header's fields that a batch decides.
struct BatchHeader {
  std::uint32_t generation = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t step_first_row = 0;
  std::uint64_t first_row = 0;
  std::uint64_t next_epoch = 0;
  std::uint64_t next_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t real_rows = 0;
  std::uint32_t skipped_rows = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
};

class BatchWriter {
 public:
  // Borrows both until Finish(). `slot` has plan.slot_bytes() bytes.
  void Begin(const SlotPlan& plan, std::byte* slot);

  std::byte* Payload(std::uint32_t tensor) const { return slot_ + plan_->payload_offset(tensor); }

  // The first side becomes `rows`, the others stay the plan's.
  void SetRows(std::uint32_t tensor, std::int64_t rows);
  // REQUIRES: as many sides as the plan's shape, and no more bytes than its room.
  void SetShape(std::uint32_t tensor, std::span<const std::int64_t> shape);

  // Writes descriptors and header. The slot can be published afterwards.
  void Finish(const BatchHeader& header);

 private:
  const SlotPlan* plan_ = nullptr;
  std::byte* slot_ = nullptr;
  std::vector<TensorDesc> descs_;
};

// Notes the time in a finished slot, just before its word is pushed.
void StampPublished(std::byte* slot);

}  // namespace stoker::shm
