// Translates the schema's image and ops into the image room's own structs: that room knows
// nothing of protobuf.
#pragma once

#include "daemon/base/status.h"
#include "daemon/image/image_program.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::pipeline {

// `first_op` is the number of the tensor's first op among all ops of the spec: random draws are
// keyed by it.
Result<image::ImageSpec> ToImageSpec(const v1::Tensor& tensor, std::uint16_t first_op);

}  // namespace stoker::pipeline
