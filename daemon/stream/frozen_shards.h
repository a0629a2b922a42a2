// The shards of a stored manifest, as the reader takes them.
#pragma once

#include <vector>

#include "daemon/io/manifest.h"
#include "stoker/v1/state.pb.h"

namespace stoker::stream {

std::vector<io::FrozenShard> FrozenShards(const v1::StoredManifest& manifest);

}  // namespace stoker::stream
