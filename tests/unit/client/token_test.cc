// The client writes tokens and the daemon reads them: both have an encoder, held together here.
#include "client/src/token.h"

#include <random>

#include "daemon/plan/token.h"
#include "tests/support/catch.h"

extern "C" int stoker_header_in_c(void);

namespace stoker {
namespace {

TEST_CASE("the client's token is the daemon's, for any fields", "[client]") {
  std::mt19937_64 draw(3);
  for (int i = 0; i < 2000; ++i) {
    // Small, large and zero numbers of every width.
    const auto next = [&]() -> std::uint64_t { return draw() >> (draw() % 64); };
    client::TokenFields fields;
    plan::Token token;
    token.epoch = fields.epoch = next();
    token.row = fields.row = next();
    token.seed = fields.seed = next();
    token.batch = fields.batch = static_cast<std::uint32_t>(next() | 1);
    token.world = fields.world = static_cast<std::uint32_t>(next() | 1);
    token.source_hash = fields.source_hash = static_cast<std::uint32_t>(next());
    token.order_hash = fields.order_hash = static_cast<std::uint32_t>(next());
    token.tensors_hash = fields.tensors_hash = static_cast<std::uint32_t>(next());
    token.batch_hash = fields.batch_hash = static_cast<std::uint32_t>(next());
    token.delivery_hash = fields.delivery_hash = static_cast<std::uint32_t>(next());
    token.paths_hash = fields.paths_hash = next();
    token.data_hash = fields.data_hash = next();
    char text[client::kTokenCapacity];
    const std::size_t bytes = client::EncodeToken(fields, text);
    REQUIRE(std::string(text, bytes) == plan::EncodeToken(token));
    REQUIRE(text[bytes] == '\0');
    const auto decoded = plan::DecodeToken({text, bytes});
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == token);
  }
}

TEST_CASE("the header works in C", "[client]") { CHECK(stoker_header_in_c() == 0); }

}  // namespace
}  // namespace stoker
