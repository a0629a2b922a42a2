#include "daemon/plan/token.h"

namespace stoker::plan {

std::string EncodeToken(const Token& token) {
  std::string text(shm::kTokenChars, '\0');
  shm::EncodeToken(token, text.data());
  return text;
}

Result<Token> DecodeToken(std::string_view text) {
  Token token;
  if (const char* wrong = shm::DecodeToken(text, &token)) {
    return Status(Code::kInvalidArgument, std::string("token: ") + wrong);
  }
  return token;
}

Status CheckToken(const Token& have, const Token& want) {
  const auto refuse = [](const char* part, const char* remedy) {
    return Status(Code::kFailedPrecondition,
                  std::string("token: the ") + part + " changed since it was written; " + remedy);
  };
  const char* restore = "restore it, or begin anew without the token";
  if (have.source_hash != want.source_hash) return refuse("source part of the spec", restore);
  if (have.order_hash != want.order_hash) return refuse("order part of the spec", restore);
  if (have.tensors_hash != want.tensors_hash) return refuse("tensors part of the spec", restore);
  if (have.seed != want.seed) return refuse("seed", restore);
  if (have.paths_hash != want.paths_hash) {
    return refuse("data (names or sizes of shards)", restore);
  }
  if (have.data_hash != 0 && want.data_hash != 0 && have.data_hash != want.data_hash) {
    return refuse("data (records or their checksums)", restore);
  }
  return Status();
}

std::uint64_t PlanId(std::uint64_t seed, std::uint32_t order_hash, std::uint64_t data_hash) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const std::uint64_t value : {seed, std::uint64_t{order_hash}, data_hash}) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3ull;
  }
  return hash;
}

}  // namespace stoker::plan
