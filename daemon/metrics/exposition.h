// Exposition: the daemon's state in Prometheus' text format, version 0.0.4.
//
// docs/reference/metrics.md lists every name. Counters of a stream live as long as the stream,
// those of a lane as long as the lane.
//
// Thread-safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "stoker/v1/control.pb.h"

namespace stoker::metrics {

std::string Exposition(const v1::GetDaemonResponse& daemon,
                       const std::vector<v1::StreamStatus>& streams);

}  // namespace stoker::metrics
