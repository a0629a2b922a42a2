// Hashes of a spec's parts, as tokens carry them: where a run is resumed these must agree.
#pragma once

#include <cstdint>

#include "stoker/v1/stream.pb.h"

namespace stoker::config {

struct PartHashes {
  std::uint32_t source = 0;  // without file names: data hashes cover what they hold
  std::uint32_t order = 0;   // without repeat: how long a run goes on changes no row of it
  std::uint32_t tensors = 0;
  std::uint32_t batch = 0;
  std::uint32_t delivery = 0;
};

// REQUIRES: FillDefaults(). Equal specs give equal hashes on every build: CRC32C of the part's
// canonical text.
PartHashes HashParts(const v1::StreamSpec& spec);

}  // namespace stoker::config
