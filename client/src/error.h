// The text behind stoker_last_error().
#pragma once

#include "client/include/stoker/stoker.h"

namespace stoker::client {

// Keeps a printf-style text for this thread and returns `code`. Texts are cut at 4 KiB.
__attribute__((format(printf, 2, 3))) stoker_code Fail(stoker_code code, const char* format, ...);

}  // namespace stoker::client
