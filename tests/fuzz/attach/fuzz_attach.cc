// Any bytes as an attach message, and as a slot: decoded within their bounds or refused.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "shm/attach_protocol.h"
#include "shm/batch_view.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker::shm;
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  MessageType type;
  std::uint16_t version = 0;
  (void)DecodeHeader(bytes.data(), bytes.size(), &type, &version);
  Attach attach;
  if (Decode(bytes.data(), bytes.size(), &attach)) {
    if (attach.name.size() > kMaxNameBytes || attach.spec.size() > kMaxSpecBytes) std::abort();
    std::vector<std::byte> again(bytes.size());
    if (Encode(attach, again.data(), again.size()) != bytes.size()) std::abort();
  }
  Attached attached;
  (void)Decode(bytes.data(), bytes.size(), &attached);
  Text text;
  (void)Decode(bytes.data(), bytes.size(), &text);

  // Aligned, as slots are.
  std::vector<std::uint64_t> slot((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(slot.data(), bytes.data(), bytes.size());
  std::uint32_t generation = 0;
  if (bytes.size() >= 20) std::memcpy(&generation, bytes.data() + 16, sizeof(generation));
  BatchView view;
  const auto* at = reinterpret_cast<const std::byte*>(slot.data());
  if (view.Open(at, bytes.size(), generation) == nullptr) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < view.size(); ++i) {
      for (const char c : view.name(i)) sum += static_cast<unsigned char>(c);
      for (std::uint64_t b = 0; b < view.tensor(i).payload_bytes; ++b) {
        sum += static_cast<std::uint64_t>(view.payload(i)[b]);
      }
    }
    (void)sum;
  }
  return 0;
}
