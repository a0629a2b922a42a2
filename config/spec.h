// Spec files: from text to a StreamSpec that is complete and sound.
//
//   ParseSpec() ─▶ FillDefaults() ─▶ ValidateSpec()
//
// Thread-safety: plain functions. Errors: kInvalidArgument with FILE:LINE:COLUMN (ParseSpec) or the
// field's path and the remedy (the others).
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/status.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::config {

// Protobuf text format. Unknown fields are errors. `file` is for messages.
Result<v1::StreamSpec> ParseSpec(std::string_view text, std::string_view file);

// Writes every default out, so that what runs can be printed and compared.
Status FillDefaults(v1::StreamSpec* spec);

// Everything that can be told without the data. REQUIRES: FillDefaults().
Status ValidateSpec(const v1::StreamSpec& spec);

// The spec as text, fields in schema order.
std::string SpecText(const v1::StreamSpec& spec);

}  // namespace stoker::config
