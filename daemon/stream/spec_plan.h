// What the spec says, in the planner's own words.
#pragma once

#include "daemon/plan/grid.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::stream {

inline plan::Remainder RemainderOf(const v1::StreamSpec& spec) {
  switch (spec.batch().remainder()) {
    case v1::Batch::DROP:
      return plan::Remainder::kDrop;
    case v1::Batch::PAD:
      return plan::Remainder::kPad;
    default:
      return plan::Remainder::kPartial;
  }
}

}  // namespace stoker::stream
