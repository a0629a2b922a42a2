// Contact sheet: the images of a batch as one PNG, with their labels.
#pragma once

#include <string>

#include "client/cli/batch_reader.h"

namespace stoker::cli {

// Draws the first `rows` images of the batch's first image tensor, stretched to the range of its
// values, with the batch's first integer scalar below each. kFailedPrecondition where no tensor
// looks like images.
Status WriteSheet(const BatchTensors& tensors, std::uint32_t rows, const std::string& path);

}  // namespace stoker::cli
