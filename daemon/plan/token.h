// Tokens on the daemon's side: reading one, and whether a run may go on from it.
//
// The text is shm/token.h's; docs/formats/token.md says what each field is. Source, order, tensors
// and data must agree; batch size, remainder, mode, world size and slots may change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/status.h"
#include "shm/token.h"

namespace stoker::plan {

using Token = shm::TokenFields;

std::string EncodeToken(const Token& token);
// kInvalidArgument with what is wrong.
Result<Token> DecodeToken(std::string_view text);

// `have` is the client's, `want` what this stream would write. kFailedPrecondition naming the
// part that differs.
Status CheckToken(const Token& have, const Token& want);

// 64 bits over seed, order and data: ranks and hosts compare it before step 0.
std::uint64_t PlanId(std::uint64_t seed, std::uint32_t order_hash, std::uint64_t data_hash);

}  // namespace stoker::plan
