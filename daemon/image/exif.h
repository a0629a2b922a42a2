// Exif: the orientation of a JPEG or a PNG, and nothing else of it.
//
// Thread-safety: a plain function. Errors: none; what cannot be read is orientation 1.
#pragma once

#include <cstddef>
#include <span>

namespace stoker::image {

// Orientation of a JPEG's first Exif segment or of a PNG's eXIf chunk before its pixels, 1 to 8; 1
// where there is none. *bad is set where there is one that cannot be read.
int JpegOrientation(std::span<const std::byte> jpeg, bool* bad);
int PngOrientation(std::span<const std::byte> png, bool* bad);

}  // namespace stoker::image
