// A token comes back as it was written, damage is told, and another stream's is refused.
#include "daemon/plan/token.h"

#include <random>

#include "tests/support/catch.h"

namespace stoker::plan {
namespace {

Token Sample() {
  Token t;
  t.epoch = 3;
  t.row = 1200;
  t.seed = 7;
  t.batch = 32;
  t.world = 4;
  t.source_hash = 0x01234567;
  t.order_hash = 0x89abcdef;
  t.tensors_hash = 0xdeadbeef;
  t.batch_hash = 0x0000000a;
  t.delivery_hash = 0xffffffff;
  t.paths_hash = 0x0011223344556677;
  t.data_hash = 0x8899aabbccddeeff;
  return t;
}

// The worked example of docs/formats/token.md.
const std::string kSample =
    "stoker1:epoch=3:row=1200:seed=7:batch=32:world=4:"
    "spec=01234567-89abcdef-deadbeef-0000000a-ffffffff:"
    "data=0011223344556677-8899aabbccddeeff:crc=8e5c8cbd";

std::string Refusal(std::string_view text) {
  const auto token = DecodeToken(text);
  REQUIRE_FALSE(token.ok());
  CHECK(token.status().code() == Code::kInvalidArgument);
  return token.status().message();
}

TEST_CASE("a token is written as its page says", "[plan][token]") {
  CHECK(EncodeToken(Sample()) == kSample);
  const auto token = DecodeToken(kSample);
  REQUIRE(token.ok());
  CHECK(*token == Sample());
}

TEST_CASE("the longest token is below 256 bytes and comes back", "[plan][token]") {
  Token t = Sample();
  t.epoch = t.row = t.seed = t.paths_hash = t.data_hash = UINT64_MAX;
  t.batch = t.world = UINT32_MAX;
  const std::string text = EncodeToken(t);
  CHECK(text.size() == 221);
  const auto back = DecodeToken(text);
  REQUIRE(back.ok());
  CHECK(*back == t);
}

TEST_CASE("any values come back", "[plan][token][property]") {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 500; ++i) {
    Token t;
    t.epoch = draw() >> (draw() % 64);
    t.row = draw() >> (draw() % 64);
    t.seed = draw();
    t.batch = static_cast<std::uint32_t>(draw() | 1);
    t.world = static_cast<std::uint32_t>(draw() | 1);
    t.source_hash = static_cast<std::uint32_t>(draw());
    t.order_hash = static_cast<std::uint32_t>(draw());
    t.tensors_hash = static_cast<std::uint32_t>(draw());
    t.batch_hash = static_cast<std::uint32_t>(draw());
    t.delivery_hash = static_cast<std::uint32_t>(draw());
    t.paths_hash = draw();
    t.data_hash = draw();
    const auto back = DecodeToken(EncodeToken(t));
    REQUIRE(back.ok());
    REQUIRE(*back == t);
  }
}

TEST_CASE("a token cut anywhere or changed in any byte is refused", "[plan][token]") {
  for (std::size_t n = 0; n < kSample.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(DecodeToken(kSample.substr(0, n)).ok());
    std::string changed = kSample;
    changed[n] = static_cast<char>(changed[n] ^ 1);
    CHECK_FALSE(DecodeToken(changed).ok());
  }
  CHECK_FALSE(DecodeToken(kSample + "\n").ok());
}

TEST_CASE("a refused token is told what is wrong with it", "[plan][token]") {
  CHECK(Refusal("") == "token is empty");
  CHECK(Refusal("hello") == "token does not begin with 'stoker' and a version: not a token");
  CHECK(Refusal("stoker2:anything") == "token has version 2, and this program reads version 1");
  CHECK(Refusal("stoker1x:anything") == "token has a version that is not a number");
  CHECK(Refusal(std::string(256, 'a')) == "token of 256 bytes is longer than 255");
  CHECK(Refusal(kSample.substr(0, 100)) == "token is cut short: its checksum is missing");
  std::string changed = kSample;
  changed[changed.find("1200")] = '2';
  CHECK(Refusal(changed) == "token is damaged: its checksum does not match");
  Token t = Sample();
  t.world = 0;
  CHECK(Refusal(EncodeToken(t)) == "token has a batch size or a world size of 0");
}

TEST_CASE("a token of another stream is refused by the part that differs", "[plan][token]") {
  const Token want = Sample();
  const auto refusal = [&want](auto change) {
    Token have = Sample();
    change(have);
    const Status status = CheckToken(have, want);
    CHECK(status.code() == Code::kFailedPrecondition);
    return status.message();
  };
  CHECK(refusal([](Token& t) { t.source_hash = 1; }) ==
        "token is of another stream: source differs (token 00000001, stream 01234567)");
  CHECK(refusal([](Token& t) { t.order_hash = 1; }) ==
        "token is of another stream: order differs (token 00000001, stream 89abcdef)");
  CHECK(refusal([](Token& t) { t.tensors_hash = 1; }) ==
        "token is of another stream: tensors differs (token 00000001, stream deadbeef)");
  CHECK(refusal([](Token& t) { t.paths_hash = 0; }) ==
        "token is of another stream: paths differs (token 0000000000000000, stream "
        "0011223344556677)");
  CHECK(refusal([](Token& t) { t.data_hash = 1; }) ==
        "token is of another stream: data differs (token 0000000000000001, stream "
        "8899aabbccddeeff)");
}

TEST_CASE("batch, delivery, sizes, position and seed may change at a resume", "[plan][token]") {
  Token have = Sample();
  have.epoch = 9;
  have.row = 0;
  have.seed = 1;
  have.batch = 1;
  have.world = 1;
  have.batch_hash = 0;
  have.delivery_hash = 0;
  have.data_hash = 0;  // written before the index was complete
  CHECK(CheckToken(have, Sample()).ok());
  CHECK(CheckToken(Sample(), have).ok());
}

TEST_CASE("plan ids follow seed, order and data", "[plan][token]") {
  const std::uint64_t id = PlanId(1, 2, 3);
  CHECK(id == PlanId(1, 2, 3));
  CHECK(id != PlanId(2, 2, 3));
  CHECK(id != PlanId(1, 3, 3));
  CHECK(id != PlanId(1, 2, 4));
  CHECK(id != PlanId(std::uint64_t{1} << 32, 2, 3));
}

}  // namespace
}  // namespace stoker::plan
