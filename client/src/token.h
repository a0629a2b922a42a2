// Tokens on the client's side: written here, read by the daemon.
//
// docs/formats/token.md is the format. A test holds these bytes against the daemon's own encoder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::client {

struct TokenFields {
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;  // the first global row that was not consumed
  std::uint64_t seed = 0;
  std::uint32_t batch = 0;
  std::uint32_t world = 0;
  std::uint32_t source_hash = 0;
  std::uint32_t order_hash = 0;
  std::uint32_t tensors_hash = 0;
  std::uint32_t batch_hash = 0;
  std::uint32_t delivery_hash = 0;
  std::uint64_t paths_hash = 0;
  std::uint64_t data_hash = 0;
};

// Longer than any token with its terminating zero.
inline constexpr std::size_t kTokenCapacity = 256;

// Writes the token and a terminating zero into kTokenCapacity bytes; returns its length.
std::size_t EncodeToken(const TokenFields& fields, char* out);

}  // namespace stoker::client
