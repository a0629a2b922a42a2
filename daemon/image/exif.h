// Exif: the orientation of a JPEG, and of nothing else.
//
// Thread-safety: a plain function. Errors: none; what cannot be read is orientation 1.
#pragma once

#include <cstddef>
#include <span>

namespace stoker::image {

// Orientation of the first Exif segment, 1 to 8; 1 where there is none. *bad is set where there is
// a segment whose orientation cannot be read.
int ExifOrientation(std::span<const std::byte> jpeg, bool* bad);

}  // namespace stoker::image
