// Attach messages: golden bytes, and no message that decodes past its end.
#include <string>
#include <vector>

#include "shm/attach_protocol.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace stoker::shm {
namespace {

using test::Little;

std::string Encoded(const Attach& attach) {
  std::vector<std::byte> buffer(kMaxMessageBytes);
  const std::size_t bytes = Encode(attach, buffer.data(), buffer.size());
  return {reinterpret_cast<const char*>(buffer.data()), bytes};
}

Attach Sample() {
  Attach attach;
  attach.body.rank = 1;
  attach.body.world_size = 2;
  attach.body.local_world_size = 2;
  attach.body.start = static_cast<std::uint32_t>(StartAt::kContinue);
  attach.body.timeout_ms = 5000;
  attach.body.pid = 77;
  attach.name = "ids";
  attach.host = "h";
  attach.token = "tok";
  attach.spec = "name: \"ids\"";
  return attach;
}

TEST_CASE("the bytes of an Attach are those of its page", "[shm][golden]") {
  const std::string want = "STAH" + Little(1, 2) + Little(1, 2) + Little(16 + 64 + 18, 4) +
                           Little(0, 4) + Little(1, 4) + Little(2, 4) + Little(2, 4) +
                           Little(2, 4) + Little(0, 4) + Little(0, 4) + Little(5000, 8) +
                           Little(0, 8) + Little(77, 8) + Little(3, 4) + Little(1, 4) +
                           Little(3, 4) + Little(11, 4) + "idshtokname: \"ids\"";
  CHECK(Encoded(Sample()) == want);
}

TEST_CASE("OldArenaGone is a header alone and carries no descriptor", "[shm][golden]") {
  std::byte buffer[16];
  REQUIRE(EncodeOldArenaGone(buffer, sizeof(buffer)) == 16);
  CHECK(std::string(reinterpret_cast<const char*>(buffer), 16) ==
        "STAH" + Little(8, 2) + Little(1, 2) + Little(16, 4) + Little(0, 4));
  MessageType type;
  std::uint16_t version = 0;
  REQUIRE(DecodeHeader(buffer, 16, &type, &version) == nullptr);
  CHECK(type == MessageType::kOldArenaGone);
  CHECK(FdsOf(type) == 0);
}

TEST_CASE("a message comes back as it was, and no cut of it does", "[shm]") {
  const std::string bytes = Encoded(Sample());
  for (std::size_t n = 0; n <= bytes.size() + 1; ++n) {
    std::string cut = bytes.substr(0, n) + (n > bytes.size() ? "x" : "");
    const auto* data = reinterpret_cast<const std::byte*>(cut.data());
    MessageType type;
    std::uint16_t version = 0;
    Attach out;
    if (n == bytes.size()) {
      REQUIRE(DecodeHeader(data, cut.size(), &type, &version) == nullptr);
      REQUIRE(Decode(data, cut.size(), &out));
      CHECK(type == MessageType::kAttach);
      CHECK(out.name == "ids");
      CHECK(out.host == "h");
      CHECK(out.token == "tok");
      CHECK(out.spec == "name: \"ids\"");
      CHECK(out.body.pid == 77);
      continue;
    }
    CHECK(DecodeHeader(data, cut.size(), &type, &version) != nullptr);
    CHECK_FALSE(Decode(data, cut.size(), &out));
  }
}

TEST_CASE("texts over their limits are neither sent nor taken", "[shm]") {
  Attach attach = Sample();
  const std::string long_name(kMaxNameBytes + 1, 'n');
  attach.name = long_name;
  CHECK(Encoded(attach).empty());
  attach = Sample();
  const std::string long_spec(kMaxSpecBytes, 's');
  attach.spec = long_spec;
  CHECK_FALSE(Encoded(attach).empty());
  std::byte small[64];
  CHECK(Encode(Sample(), small, sizeof(small)) == 0);
}

TEST_CASE("other magic, versions and types are told apart", "[shm]") {
  const auto wrong = [](std::size_t at, char value) {
    std::string bytes = Encoded(Sample());
    bytes[at] = value;
    MessageType type;
    std::uint16_t version = 0;
    const char* text = DecodeHeader(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                                    &type, &version);
    return std::string(text == nullptr ? "" : text);
  };
  CHECK(wrong(0, 'X').find("not the attach protocol") != std::string::npos);
  CHECK(wrong(6, 9).find("version") != std::string::npos);
  CHECK(wrong(4, 99).find("type is unknown") != std::string::npos);
  CHECK(wrong(8, 1).find("length") != std::string::npos);
}

TEST_CASE("a refusal's text is cut at its limit", "[shm]") {
  std::vector<std::byte> buffer(kMaxTextBytes + 1024);
  const std::string text(kMaxTextBytes + 500, 't');
  const std::size_t bytes = Encode(MessageType::kRefused, {5, text}, buffer.data(), buffer.size());
  Text out;
  REQUIRE(Decode(buffer.data(), bytes, &out));
  CHECK(out.code == 5);
  CHECK(out.text.size() == kMaxTextBytes);
}

}  // namespace
}  // namespace stoker::shm
