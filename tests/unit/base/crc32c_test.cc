// CRC32C: the published check value, and the short routine against the general one.
#include "daemon/base/crc32c.h"

#include <cstring>
#include <random>
#include <string_view>

#include "tests/support/catch.h"

namespace stoker {
namespace {

TEST_CASE("the checksum of 123456789 is the published one", "[base][crc]") {
  const std::string_view text = "123456789";
  CHECK(Crc32c(std::as_bytes(std::span(text))) == 0xe3069283u);
}

TEST_CASE("eight bytes by table have the checksum of eight bytes", "[base][crc]") {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t value = i < 300 ? static_cast<std::uint64_t>(i) : draw() >> (i % 64);
    std::byte bytes[8];
    std::memcpy(bytes, &value, sizeof(value));
    REQUIRE(Crc32cOfU64(value) == Crc32c(bytes));
  }
}

}  // namespace
}  // namespace stoker
