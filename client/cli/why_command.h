// The `why` command, in a header of its own for main.cc alone.
#pragma once

#include "client/cli/common.h"

namespace stoker::cli {

void AddWhyCommand(CLI::App* app, Globals* globals, int* exit_code);

}  // namespace stoker::cli
