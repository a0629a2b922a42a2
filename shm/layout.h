// What a slot holds: the layout of one batch in shared memory, version 1.
//
// docs/formats/slot.md is the normative page; tests/unit/shm/layout_test.cc compares the bytes.
// Little-endian; offsets from the slot's first byte; no pointers, no bool. A slot is
//   SlotHeader | TensorDesc[tensor_count] | names | padding | payloads, each aligned to 256.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::shm {

inline constexpr std::uint32_t kSlotMagic = 0x4b4f5453;  // "STOK"
inline constexpr std::uint32_t kSlotVersion = 1;
inline constexpr std::uint64_t kPayloadAlignment = 256;
inline constexpr std::uint64_t kSlotAlignment = 4096;
inline constexpr std::uint32_t kMaxTensors = 1024;
inline constexpr std::uint32_t kMaxDims = 8;
inline constexpr std::uint32_t kNoParent = 0xffffffffu;

// What a tensor of a slot is to its reader.
enum class TensorRole : std::uint8_t {
  kDense = 0,       // (rows, …)
  kValues = 1,      // (n,): all rows' values one after the other
  kRowSplits = 2,   // int64 (rows + 1,): row r holds values [s[r], s[r + 1])
  kByteSplits = 3,  // int64 (strings + 1,): string i holds bytes [s[i], s[i + 1])
  kLengths = 4,     // int64 (rows,): real values of a padded row
  kValid = 5,       // bool (rows,): 0 for filler and masked rows
  kRowIds = 6,      // int64 (rows,): shard << 40 | record, -1 where not valid
};
inline constexpr std::uint8_t kTensorRoles = 7;

// DLPack's device numbers; version 1 delivers kCpu only.
inline constexpr std::int32_t kDeviceCpu = 1;

enum SlotFlags : std::uint32_t {
  kHasValid = 1u << 0,     // a `valid` tensor is present
  kHasChecksum = 1u << 1,  // `checksum` is that of the payloads
};

struct SlotHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t slot_bytes;  // the slot's whole length
  std::uint32_t generation;  // of the slot, as the delivery word names it
  std::uint32_t flags;       // SlotFlags
  std::uint64_t epoch;
  std::uint64_t step;            // the batch's number in its epoch
  std::uint64_t step_first_row;  // global first row of the step, all ranks
  std::uint64_t first_row;       // global first row of this rank's part
  std::uint64_t next_epoch;      // position after this step
  std::uint64_t next_row;
  std::uint32_t rows;           // of this batch: the first side of dense tensors
  std::uint32_t real_rows;      // of them neither filler nor masked
  std::uint32_t capacity_rows;  // of a full batch
  std::uint32_t skipped_rows;   // left out because they were bad
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t tensor_count;
  std::uint32_t names_bytes;
  std::uint64_t checksum;      // 0 unless kHasChecksum
  std::uint64_t published_ns;  // CLOCK_MONOTONIC when it was handed over; 0 before
  std::uint64_t reserved;      // 0
};
static_assert(sizeof(SlotHeader) == 128);
static_assert(offsetof(SlotHeader, epoch) == 24);
static_assert(offsetof(SlotHeader, rows) == 72);
static_assert(offsetof(SlotHeader, checksum) == 104);
static_assert(offsetof(SlotHeader, published_ns) == 112);

struct TensorDesc {
  std::uint32_t name_offset;  // in the names, which follow the descriptors
  std::uint32_t name_bytes;
  std::uint8_t dtype_code;  // DLPack's DLDataTypeCode
  std::uint8_t dtype_bits;
  std::uint16_t dtype_lanes;  // 1
  std::uint8_t role;          // TensorRole
  std::uint8_t ndim;          // 1 to kMaxDims
  std::uint16_t reserved;     // 0
  std::int32_t device_type;   // DLPack's DLDeviceType
  std::int32_t device_id;
  std::uint32_t parent;     // the tensor this one describes, or kNoParent
  std::uint32_t reserved2;  // 0
  std::uint64_t payload_offset;
  std::uint64_t payload_bytes;
  std::int64_t shape[kMaxDims];
};
static_assert(sizeof(TensorDesc) == 112);
static_assert(offsetof(TensorDesc, payload_offset) == 32);
static_assert(offsetof(TensorDesc, shape) == 48);

constexpr std::uint64_t AlignUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace stoker::shm
