// Token: a position in a stream, and what makes it safe to go on from there: the seed and hashes
// of what decides which row is where. The trainer keeps it in its checkpoint, as one line of text
// of less than 256 bytes. docs/formats/token.md is the format.
//
// Ownership: values. Thread-safety: pure functions. Blocking: never.
// Errors: kInvalidArgument for text that is no token, with what is wrong with it;
//   kFailedPrecondition for a token of another stream, with the part that differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/status.h"

namespace stoker::plan {

inline constexpr std::uint32_t kTokenVersion = 1;
inline constexpr std::size_t kMaxTokenBytes = 255;

struct Token {
  std::uint32_t version = kTokenVersion;
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;  // the first global row that was not consumed
  std::uint64_t seed = 0;
  std::uint32_t batch = 0;
  std::uint32_t world = 0;
  // Hashes of the spec's parts.
  std::uint32_t source_hash = 0;
  std::uint32_t order_hash = 0;
  std::uint32_t tensors_hash = 0;
  std::uint32_t batch_hash = 0;
  std::uint32_t delivery_hash = 0;
  // Shard paths and sizes; record counts and stored checksums (0: not known, not compared).
  std::uint64_t paths_hash = 0;
  std::uint64_t data_hash = 0;

  bool operator==(const Token&) const = default;
};

// Writes version 1.
std::string EncodeToken(const Token& token);

// Accepts what EncodeToken writes and nothing else.
Result<Token> DecodeToken(std::string_view text);

// Whether a stream that would write `want` may go on from `have`: source, order, tensors and
// paths must agree, and the data where both know it. Batch, delivery, batch size and world size
// may differ. The seed is not compared: one that the spec gives is part of order_hash, and where
// the spec gives none the stream takes the token's.
Status CheckToken(const Token& have, const Token& want);

// A number by which ranks compare that they follow the same plan, before the first step.
std::uint64_t PlanId(std::uint64_t seed, std::uint32_t order_hash, std::uint64_t data_hash);

}  // namespace stoker::plan
