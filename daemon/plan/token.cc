#include "daemon/plan/token.h"

#include <array>
#include <cctype>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <span>

#include "daemon/base/crc32c.h"
#include "daemon/base/philox.h"

namespace stoker::plan {
namespace {

constexpr std::string_view kName = "stoker";
constexpr std::string_view kCrcKey = ":crc=";

std::string Hex(std::uint64_t value, int digits) {
  char text[17];
  std::snprintf(text, sizeof(text), "%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::uint32_t Checksum(std::string_view text) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

Status Bad(const std::string& what) { return Status(Code::kInvalidArgument, "token " + what); }

// Takes fields off the front of a text; the first that fails is named and ends the reading.
class Fields {
 public:
  explicit Fields(std::string_view text) : text_(text) {}

  template <std::unsigned_integral T>
  void Number(std::string_view before, int base, T* out) {
    if (!failed_.empty()) return;
    if (!text_.starts_with(before)) return Fail(before);
    const char* begin = text_.data() + before.size();
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), *out, base);
    if (error != std::errc()) return Fail(before);
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
  }

  bool AtEnd() const { return failed_.empty() && text_.empty(); }
  std::string Problem() const {
    return failed_.empty() ? "has more after its last field" : "is wrong at '" + failed_ + "'";
  }

 private:
  void Fail(std::string_view where) { failed_ = where; }

  std::string_view text_;
  std::string failed_;
};

// What needs no checksum to be told: other text, another version, a cut.
Status CheckShape(std::string_view text) {
  if (text.empty()) return Bad("is empty");
  if (text.size() > kMaxTokenBytes) {
    return Bad("of " + std::to_string(text.size()) + " bytes is longer than " +
               std::to_string(kMaxTokenBytes));
  }
  if (!text.starts_with(kName) || text.size() == kName.size() ||
      !std::isdigit(static_cast<unsigned char>(text[kName.size()]))) {
    return Bad("does not begin with 'stoker' and a version: not a token");
  }
  const std::string_view digits = text.substr(kName.size(), text.find(':') - kName.size());
  std::uint32_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Bad("has a version that is not a number");
  }
  if (version != kTokenVersion) {
    return Bad("has version " + std::to_string(version) + ", and this program reads version " +
               std::to_string(kTokenVersion));
  }
  const std::size_t crc = text.rfind(kCrcKey);
  if (crc == std::string_view::npos || text.size() < crc + kCrcKey.size() + 8) {
    return Bad("is cut short: its checksum is missing");
  }
  if (text.substr(crc + kCrcKey.size()) != Hex(Checksum(text.substr(0, crc)), 8)) {
    return Bad("is damaged: its checksum does not match");
  }
  return Status();
}

Status Compare(const char* part, std::uint64_t have, std::uint64_t want, int digits) {
  if (have == want) return Status();
  return Status(Code::kFailedPrecondition, std::string("token is of another stream: ") + part +
                                               " differs (token " + Hex(have, digits) +
                                               ", stream " + Hex(want, digits) + ")");
}

}  // namespace

std::string EncodeToken(const Token& t) {
  std::string text(kName);
  text += std::to_string(kTokenVersion) + ":epoch=" + std::to_string(t.epoch) +
          ":row=" + std::to_string(t.row) + ":seed=" + std::to_string(t.seed) +
          ":batch=" + std::to_string(t.batch) + ":world=" + std::to_string(t.world) +
          ":spec=" + Hex(t.source_hash, 8) + "-" + Hex(t.order_hash, 8) + "-" +
          Hex(t.tensors_hash, 8) + "-" + Hex(t.batch_hash, 8) + "-" + Hex(t.delivery_hash, 8) +
          ":data=" + Hex(t.paths_hash, 16) + "-" + Hex(t.data_hash, 16);
  const std::uint32_t crc = Checksum(text);
  return text.append(kCrcKey).append(Hex(crc, 8));
}

Result<Token> DecodeToken(std::string_view text) {
  STOKER_TRY(CheckShape(text));
  Token t;
  std::uint32_t crc = 0;
  Fields fields(text);
  fields.Number("stoker", 10, &t.version);
  fields.Number(":epoch=", 10, &t.epoch);
  fields.Number(":row=", 10, &t.row);
  fields.Number(":seed=", 10, &t.seed);
  fields.Number(":batch=", 10, &t.batch);
  fields.Number(":world=", 10, &t.world);
  fields.Number(":spec=", 16, &t.source_hash);
  fields.Number("-", 16, &t.order_hash);
  fields.Number("-", 16, &t.tensors_hash);
  fields.Number("-", 16, &t.batch_hash);
  fields.Number("-", 16, &t.delivery_hash);
  fields.Number(":data=", 16, &t.paths_hash);
  fields.Number("-", 16, &t.data_hash);
  fields.Number(":crc=", 16, &crc);
  if (!fields.AtEnd()) return Bad(fields.Problem());
  // One position has one text: no leading zeros, no capitals, no missing digits.
  if (EncodeToken(t) != text) return Bad("is not written as a token is written");
  if (t.batch == 0 || t.world == 0) return Bad("has a batch size or a world size of 0");
  return t;
}

Status CheckToken(const Token& have, const Token& want) {
  STOKER_TRY(Compare("source", have.source_hash, want.source_hash, 8));
  STOKER_TRY(Compare("order", have.order_hash, want.order_hash, 8));
  STOKER_TRY(Compare("tensors", have.tensors_hash, want.tensors_hash, 8));
  STOKER_TRY(Compare("paths", have.paths_hash, want.paths_hash, 16));
  if (have.data_hash == 0 || want.data_hash == 0) return Status();
  return Compare("data", have.data_hash, want.data_hash, 16);
}

std::uint64_t PlanId(std::uint64_t seed, std::uint32_t order_hash, std::uint64_t data_hash) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const std::array<std::uint32_t, 4> words = Philox::Block(
      {low(data_hash), high(data_hash), order_hash, kTokenVersion}, {low(seed), high(seed)});
  return words[0] | std::uint64_t{words[1]} << 32;
}

}  // namespace stoker::plan
