// The daemon's configuration: from a file, completed from the environment.
#pragma once

#include <string>

#include "daemon/base/status.h"
#include "stoker/v1/daemon.pb.h"

namespace stoker::config {

// Reads a DaemonConfig in protobuf text format. Errors name FILE:LINE:COLUMN.
Result<v1::DaemonConfig> LoadDaemonConfig(const std::string& path);

// Folders and limits that were not given, as proto/stoker/v1/daemon.proto states them. Makes the
// cache folder; where that fails `cache_dir` becomes empty and indexes stay in memory.
Status FillDaemonDefaults(v1::DaemonConfig* config);

// Where a daemon of this user keeps its sockets when nothing is said.
std::string DefaultRuntimeDir();

}  // namespace stoker::config
