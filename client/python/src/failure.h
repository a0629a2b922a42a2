// Failure: what crosses from the C ABI to Python. The module turns it into stoker._errors' class of
// the same code.
//
// Thread-safety: a value. Must be thrown with the GIL held or before it is taken again by a scope.
#pragma once

#include <string>
#include <utility>

#include "stoker/stoker.h"

namespace stoker::python {

struct Failure {
  stoker_code code;
  std::string text;
};

inline void Check(stoker_code code) {
  if (code != STOKER_OK) throw Failure{code, stoker_last_error()};
}

}  // namespace stoker::python
