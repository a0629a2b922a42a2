// The row program's part of a spec: the defaults of its operations, and what can be told of them
// before any data is read. How operations follow on each other is judged where they are compiled.
//
// Thread-safety: plain functions. Errors: kInvalidArgument with the field's path and its range.
#pragma once

#include <string>

#include "daemon/base/status.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::config {

// Writes out what each operation of `tensor` leaves unsaid. An image's profile decides some.
void FillOpDefaults(v1::Tensor* tensor);

// `where` is the tensor's place: `tensor[1] "image"`. REQUIRES: FillOpDefaults().
Status CheckOps(const v1::Tensor& tensor, const std::string& where);

}  // namespace stoker::config
