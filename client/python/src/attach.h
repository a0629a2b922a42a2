// Attaching from Python: a wait of any length that Ctrl-C ends.
//
// Ownership: the caller closes the stream. Blocking: up to the timeout, without the GIL.
// Errors: throws Failure, or what a signal handler raised. An attach that was interrupted goes on
//   in its own thread, which closes what it may still get.
#pragma once

#include <string>

#include "stoker/stoker.h"

namespace stoker::python {

// Empty texts mean the C ABI's defaults.
struct AttachText {
  std::string socket_path;
  std::string stream_name;
  std::string spec_text;
  std::string token;
};

// REQUIRES: the GIL. The texts of `options` are taken from `text`.
stoker_stream* Attach(AttachText text, stoker_attach_options options);

}  // namespace stoker::python
