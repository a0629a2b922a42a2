// What the parsers of Examples and SequenceExamples say of bytes that they refuse.
//
// Faults are written into the caller's string, whose room is kept: in the modes that read on behind
// a fault none costs an allocation a record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/fault.h"
#include "daemon/example/wire.h"

namespace stoker::example {

// `key` names the feature, where there is one. Returns `fault`.
FaultClass Fault(FaultClass fault, std::string_view key, std::string_view what,
                 std::string* detail);
FaultClass Ambiguous(const char* what, std::string* detail);
FaultClass Malformed(const char* what, std::string* detail);

// The fault of a length that Cursor::Bytes() did not take.
FaultClass LengthFault(Cursor at_length, const char* past_end, const char** what);
FaultClass LengthFault(Cursor at_length, const char* past_end, std::string* detail);

// Passes over a field that is not ours at the top level.
FaultClass SkipField(std::uint64_t tag, Cursor* cursor, std::string* detail);

}  // namespace stoker::example
