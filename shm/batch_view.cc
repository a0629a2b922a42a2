#include "shm/batch_view.h"

namespace stoker::shm {

const char* BatchView::Open(const std::byte* slot, std::uint64_t slot_bytes,
                            std::uint32_t generation) {
  slot_ = slot;
  if (slot_bytes < sizeof(SlotHeader)) return "the slot is smaller than its header";
  const SlotHeader& h = header();
  if (h.magic != kSlotMagic) return "the slot does not begin with its magic";
  if (h.version != kSlotVersion) return "the slot's layout has another version";
  if (h.slot_bytes != slot_bytes) return "the slot's length is not what was agreed";
  if (h.generation != generation) return "the slot holds another batch than was delivered";
  if (h.tensor_count == 0 || h.tensor_count > kMaxTensors) return "the slot's tensor count";
  const std::uint64_t names =
      sizeof(SlotHeader) + std::uint64_t{h.tensor_count} * sizeof(TensorDesc);
  if (names + h.names_bytes > slot_bytes) return "descriptors or names run past the slot";
  if (h.rows > h.capacity_rows || h.real_rows > h.rows) return "the slot's row counts";
  for (std::uint32_t i = 0; i < h.tensor_count; ++i) {
    if (const char* wrong = CheckTensor(i, names + h.names_bytes, slot_bytes)) return wrong;
  }
  return nullptr;
}

const char* BatchView::CheckTensor(std::uint32_t i, std::uint64_t begin, std::uint64_t end) const {
  const TensorDesc& desc = tensor(i);
  const SlotHeader& h = header();
  if (desc.name_offset > h.names_bytes || desc.name_bytes > h.names_bytes - desc.name_offset) {
    return "a tensor's name runs past the names";
  }
  if (desc.ndim == 0 || desc.ndim > kMaxDims) return "a tensor's number of sides";
  if (desc.role >= kTensorRoles) return "a tensor's role";
  if (desc.dtype_lanes != 1 || desc.dtype_bits == 0 || desc.dtype_bits % 8 != 0) {
    return "a tensor's dtype";
  }
  if (desc.device_type != kDeviceCpu) return "a tensor's device";
  if (desc.parent != kNoParent && desc.parent >= h.tensor_count) return "a tensor's parent";
  if (desc.payload_offset % kPayloadAlignment != 0) return "a payload's alignment";
  if (desc.payload_offset < begin) return "a payload lies over the descriptors";
  if (desc.payload_offset > end || desc.payload_bytes > end - desc.payload_offset) {
    return "a payload runs past the slot";
  }
  std::uint64_t bytes = desc.dtype_bits / 8u;
  for (std::uint32_t d = 0; d < desc.ndim; ++d) {
    if (desc.shape[d] < 0) return "a tensor's shape";
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(desc.shape[d]), &bytes)) {
      return "a tensor's shape overflows";
    }
  }
  return bytes == desc.payload_bytes ? nullptr : "a payload's length is not that of its shape";
}

}  // namespace stoker::shm
