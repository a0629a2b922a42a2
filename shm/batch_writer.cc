#include "shm/batch_writer.h"

#include <time.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace stoker::shm {
namespace {

constexpr std::uint64_t kLargestSlot = std::uint64_t{1} << 46;

}  // namespace

std::optional<SlotPlan> SlotPlan::Make(std::vector<TensorSpec> tensors, std::uint32_t batch) {
  if (tensors.empty() || tensors.size() > kMaxTensors) return std::nullopt;
  SlotPlan plan;
  plan.batch_ = batch;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.shape.empty() || tensor.shape.size() > kMaxDims) return std::nullopt;
    if (tensor.max_bytes > kLargestSlot) return std::nullopt;
    plan.names_ += tensor.name;
  }
  std::uint64_t end = sizeof(SlotHeader) + tensors.size() * sizeof(TensorDesc) + plan.names_.size();
  for (const TensorSpec& tensor : tensors) {
    end = AlignUp(end, kPayloadAlignment);
    plan.offsets_.push_back(end);
    end += tensor.max_bytes;
    if (end > kLargestSlot) return std::nullopt;
  }
  plan.slot_bytes_ = AlignUp(end, kSlotAlignment);
  plan.tensors_ = std::move(tensors);
  return plan;
}

void BatchWriter::Begin(const SlotPlan& plan, std::byte* slot) {
  plan_ = &plan;
  slot_ = slot;
  descs_.assign(plan.size(), TensorDesc{});
  std::uint32_t name_offset = 0;
  for (std::uint32_t i = 0; i < plan.size(); ++i) {
    const TensorSpec& spec = plan.tensor(i);
    TensorDesc& desc = descs_[i];
    desc.name_offset = name_offset;
    desc.name_bytes = static_cast<std::uint32_t>(spec.name.size());
    name_offset += desc.name_bytes;
    desc.dtype_code = spec.dtype_code;
    desc.dtype_bits = spec.dtype_bits;
    desc.dtype_lanes = 1;
    desc.role = static_cast<std::uint8_t>(spec.role);
    desc.ndim = static_cast<std::uint8_t>(spec.shape.size());
    desc.device_type = kDeviceCpu;
    desc.parent = spec.parent < 0 ? kNoParent : static_cast<std::uint32_t>(spec.parent);
    desc.payload_offset = plan.payload_offset(i);
    for (std::size_t d = 0; d < spec.shape.size(); ++d) desc.shape[d] = spec.shape[d];
  }
}

void BatchWriter::SetRows(std::uint32_t tensor, std::int64_t rows) {
  descs_[tensor].shape[0] = rows;
}

void BatchWriter::SetShape(std::uint32_t tensor, std::span<const std::int64_t> shape) {
  for (std::size_t d = 0; d < shape.size(); ++d) descs_[tensor].shape[d] = shape[d];
}

void BatchWriter::Finish(const BatchHeader& from) {
  for (std::uint32_t i = 0; i < plan_->size(); ++i) {
    TensorDesc& desc = descs_[i];
    std::uint64_t bytes = desc.dtype_bits / 8u;
    bool overflow = false;
    for (std::uint32_t d = 0; d < desc.ndim; ++d) {
      overflow |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(desc.shape[d]), &bytes);
    }
    desc.payload_bytes = bytes;
    // A batch larger than its room would be a neighbour's memory: our bug, and never to go on with.
    if (overflow || bytes > plan_->tensor(i).max_bytes) std::abort();
  }
  SlotHeader header = {};
  header.magic = kSlotMagic;
  header.version = kSlotVersion;
  header.slot_bytes = plan_->slot_bytes();
  header.generation = from.generation;
  for (std::uint32_t i = 0; i < plan_->size(); ++i) {
    if (plan_->tensor(i).role == TensorRole::kValid) header.flags |= kHasValid;
  }
  header.epoch = from.epoch;
  header.step = from.step;
  header.step_first_row = from.step_first_row;
  header.first_row = from.first_row;
  header.next_epoch = from.next_epoch;
  header.next_row = from.next_row;
  header.rows = from.rows;
  header.real_rows = from.real_rows;
  header.capacity_rows = plan_->batch();
  header.skipped_rows = from.skipped_rows;
  header.rank = from.rank;
  header.world_size = from.world_size;
  header.tensor_count = plan_->size();
  header.names_bytes = static_cast<std::uint32_t>(plan_->names().size());
  std::byte* at = slot_ + sizeof(header);
  std::memcpy(at, descs_.data(), descs_.size() * sizeof(TensorDesc));
  std::memcpy(at + descs_.size() * sizeof(TensorDesc), plan_->names().data(),
              plan_->names().size());
  std::memcpy(slot_, &header, sizeof(header));
}

void StampPublished(std::byte* slot) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto ns =
      static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + static_cast<std::uint64_t>(now.tv_nsec);
  std::memcpy(slot + offsetof(SlotHeader, published_ns), &ns, sizeof(ns));
}

}  // namespace stoker::shm
