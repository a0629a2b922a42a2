// Protobuf text format with errors that name file, line and column.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "daemon/base/status.h"

namespace stoker::config {

// Parses `text` into *message. `what` is "a stream spec" and its like, `page` where it is
// described.
Status ParseText(std::string_view text, std::string_view file, std::string_view what,
                 std::string_view page, google::protobuf::Message* message);

}  // namespace stoker::config
