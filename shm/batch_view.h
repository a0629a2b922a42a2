// BatchView: a reader's look at one slot, checked before a byte of payload is touched.
//
// The daemon writes a slot before it publishes it and not again until it is returned; still a
// reader believes nothing: every offset and length is bounded by the slot it was told of, so that
// bytes that are not a batch are an error and never a wild access.
//
// Ownership: borrows the slot. No allocation. Thread-safety: immutable after Open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shm/layout.h"

namespace stoker::shm {

class BatchView {
 public:
  // nullptr, or what is wrong. `generation` is what the delivery word said.
  const char* Open(const std::byte* slot, std::uint64_t slot_bytes, std::uint32_t generation);

  const SlotHeader& header() const { return *reinterpret_cast<const SlotHeader*>(slot_); }
  std::uint32_t size() const { return header().tensor_count; }
  const TensorDesc& tensor(std::uint32_t i) const {
    return reinterpret_cast<const TensorDesc*>(slot_ + sizeof(SlotHeader))[i];
  }
  std::string_view name(std::uint32_t i) const {
    const TensorDesc& desc = tensor(i);
    return {reinterpret_cast<const char*>(Names() + desc.name_offset), desc.name_bytes};
  }
  const std::byte* payload(std::uint32_t i) const { return slot_ + tensor(i).payload_offset; }

 private:
  const std::byte* Names() const {
    return slot_ + sizeof(SlotHeader) + std::uint64_t{header().tensor_count} * sizeof(TensorDesc);
  }
  // Payloads lie between `begin`, where the names end, and `end`, the slot's own.
  const char* CheckTensor(std::uint32_t i, std::uint64_t begin, std::uint64_t end) const;

  const std::byte* slot_ = nullptr;
};

}  // namespace stoker::shm
