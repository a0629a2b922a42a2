// A batch in a slot: the bytes are those of docs/formats/slot.md, and a reader believes none of
// them.
#include <cstring>

#include "shm/batch_view.h"
#include "shm/batch_writer.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::shm {
namespace {

struct Slot {
  SlotPlan plan;
  std::vector<std::byte> bytes;
};

// Two rows of capacity four: `x` float32 (rows, 3), and row ids.
Slot MakeSlot() {
  Slot slot;
  TensorSpec x;
  x.name = "x";
  x.dtype_code = 2;
  x.dtype_bits = 32;
  x.shape = {4, 3};
  x.max_bytes = 48;
  TensorSpec ids;
  ids.name = "row_ids";
  ids.dtype_bits = 64;
  ids.role = TensorRole::kRowIds;
  ids.shape = {4};
  ids.max_bytes = 32;
  slot.plan = *SlotPlan::Make({x, ids}, 4);
  slot.bytes.resize(slot.plan.slot_bytes());
  BatchWriter writer;
  writer.Begin(slot.plan, slot.bytes.data());
  writer.SetRows(0, 2);
  writer.SetRows(1, 2);
  BatchHeader header;
  header.generation = 9;
  header.epoch = 1;
  header.step = 2;
  header.step_first_row = 3;
  header.first_row = 4;
  header.next_epoch = 5;
  header.next_row = 6;
  header.rows = 2;
  header.real_rows = 2;
  header.rank = 1;
  header.world_size = 3;
  writer.Finish(header);
  return slot;
}

TEST_CASE("the bytes of a slot are those of its page", "[shm][golden]") {
  using test::Little;
  const Slot slot = MakeSlot();
  REQUIRE(slot.plan.slot_bytes() == 4096);
  CHECK(slot.plan.payload_offset(0) == 512);
  CHECK(slot.plan.payload_offset(1) == 768);
  const std::string want =
      "STOK" + Little(1, 4) + Little(4096, 8) + Little(9, 4) + Little(0, 4) + Little(1, 8) +
      Little(2, 8) + Little(3, 8) + Little(4, 8) + Little(5, 8) + Little(6, 8) + Little(2, 4) +
      Little(2, 4) + Little(4, 4) + Little(0, 4) + Little(1, 4) + Little(3, 4) + Little(2, 4) +
      Little(8, 4) + std::string(24, '\0') +
      // x: name at 0, one byte; float32; dense, two sides; on the CPU; no parent
      Little(0, 4) + Little(1, 4) + Little(2, 1) + Little(32, 1) + Little(1, 2) + Little(0, 1) +
      Little(2, 1) + Little(0, 2) + Little(1, 4) + Little(0, 4) + Little(0xffffffff, 4) +
      Little(0, 4) + Little(512, 8) + Little(24, 8) + Little(2, 8) + Little(3, 8) +
      std::string(48, '\0') +
      // row_ids
      Little(1, 4) + Little(7, 4) + Little(0, 1) + Little(64, 1) + Little(1, 2) + Little(6, 1) +
      Little(1, 1) + Little(0, 2) + Little(1, 4) + Little(0, 4) + Little(0xffffffff, 4) +
      Little(0, 4) + Little(768, 8) + Little(16, 8) + Little(2, 8) + std::string(56, '\0') +
      "xrow_ids";
  const std::string have(reinterpret_cast<const char*>(slot.bytes.data()), want.size());
  CHECK(have == want);
}

TEST_CASE("a reader finds what was written", "[shm]") {
  const Slot slot = MakeSlot();
  BatchView view;
  REQUIRE(view.Open(slot.bytes.data(), slot.bytes.size(), 9) == nullptr);
  CHECK(view.size() == 2);
  CHECK(view.name(0) == "x");
  CHECK(view.name(1) == "row_ids");
  CHECK(view.tensor(0).shape[0] == 2);
  CHECK(view.payload(1) - slot.bytes.data() == 768);
  CHECK(view.Open(slot.bytes.data(), slot.bytes.size(), 8) != nullptr);
}

TEST_CASE("no changed byte of header or descriptors leads outside the slot", "[shm]") {
  const Slot slot = MakeSlot();
  const std::size_t checked = sizeof(SlotHeader) + 2 * sizeof(TensorDesc);
  for (std::size_t i = 0; i < checked; ++i) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> bytes = slot.bytes;
      bytes[i] = static_cast<std::byte>(value);
      BatchView view;
      if (view.Open(bytes.data(), bytes.size(), 9) != nullptr) continue;
      // What is accepted can be read whole.
      for (std::uint32_t t = 0; t < view.size(); ++t) {
        const auto& desc = view.tensor(t);
        REQUIRE(desc.payload_offset + desc.payload_bytes <= bytes.size());
        unsigned sum = 0;
        for (const char c : view.name(t)) sum += static_cast<unsigned char>(c);
        for (std::uint64_t b = 0; b < desc.payload_bytes; ++b)
          sum += static_cast<unsigned>(view.payload(t)[b]);
        (void)sum;
      }
    }
  }
}

TEST_CASE("plans that cannot be laid out are refused", "[shm]") {
  TensorSpec tensor;
  tensor.name = "t";
  tensor.dtype_bits = 8;
  tensor.shape = {1};
  tensor.max_bytes = std::uint64_t{1} << 63;
  CHECK_FALSE(SlotPlan::Make({tensor}, 1));
  CHECK_FALSE(SlotPlan::Make({}, 1));
  tensor.max_bytes = 1;
  tensor.shape.assign(9, 1);
  CHECK_FALSE(SlotPlan::Make({tensor}, 1));
}

}  // namespace
}  // namespace stoker::shm
