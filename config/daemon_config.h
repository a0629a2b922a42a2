// The daemon's configuration: from a file, completed from the environment.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "stoker/v1/daemon.pb.h"

namespace stoker::config {

// Reads a DaemonConfig in protobuf text format. Errors name FILE:LINE:COLUMN.
Result<v1::DaemonConfig> LoadDaemonConfig(const std::string& path);

// Folders and limits that were not given, as proto/stoker/v1/daemon.proto states them. Makes the
// cache folder unless told not to; where that fails `cache_dir` becomes empty and indexes stay in
// memory.
Status FillDaemonDefaults(v1::DaemonConfig* config, bool make_folders = true);

// The configuration as a file that LoadDaemonConfig() reads.
std::string DaemonConfigText(const v1::DaemonConfig& config);

// The fields in which two configurations differ, by path: "workers", "access.allow_user".
std::vector<std::string> ChangedFields(const v1::DaemonConfig& a, const v1::DaemonConfig& b);

// Where a daemon of this user keeps its sockets when nothing is said.
std::string DefaultRuntimeDir();

}  // namespace stoker::config
