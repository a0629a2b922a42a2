// Target: what a STREAM argument means, a running stream by its name or a spec file.
//
// An argument with a `/`, or one that ends as spec files do (.textproto, .txtpb, .pbtxt,
// .textpb), is a file. Any other is the running stream of that name; where none runs and a file
// of that name is there, it is the file.
//
// Blocking: asks the daemon only where the argument could be either.
#pragma once

#include <optional>
#include <string>

#include "client/cli/common.h"

namespace stoker::cli {

struct Target {
  std::string name;                    // the stream's
  std::optional<v1::StreamSpec> spec;  // absent: the stream is expected to run
};

// Errors: those of LoadSpec().
Result<Target> FindTarget(const Globals& globals, const std::string& argument);

// The spec behind a target: its own, or the running stream's, with the seed that it drew.
Result<v1::StreamSpec> SpecOf(const Globals& globals, const Target& target);

// A stream like the target's, under a name of its own and without end: to be looked at without
// taking anything from those who read the other one. It begins with the first attach.
Result<Target> PrivateCopy(const Globals& globals, const Target& target,
                           const std::string& purpose);
void CloseCopy(const Globals& globals, const Target& copy);

}  // namespace stoker::cli
