// ImageFolder: the images below a folder, with the classes that their places or names tell.
//
// kFolders: an image's class is the folder it lies in, below the one given. kPrefixes: what its
// name begins with, up to the first digit, without the marks before it ("cat_001.jpg" is a cat).
// kAuto: folders where all images lie in some, prefixes where none does.
//
// Thread-safety: plain functions. Blocking: reads folders; LookAt() reads nothing.
// Errors: kInvalidArgument with path and remedy; kResourceExhausted with path and system text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/status.h"

namespace stoker::cli {

enum class ClassesFrom { kAuto, kFolders, kPrefixes };

struct ImageFile {
  std::string path;  // below the folder
  std::uint32_t label = 0;
};

struct ImageFolder {
  // Hidden names are left out and counted. Files and classes are sorted bytewise.
  static Result<ImageFolder> Scan(const std::string& folder, ClassesFrom from);

  std::vector<ImageFile> files;
  std::vector<std::string> classes;
  std::uint64_t hidden = 0;
};

struct ImageFacts {
  std::string format;  // "jpeg", "png"
  std::uint32_t height = 0;
  std::uint32_t width = 0;
};

// Told by the bytes, without decoding. kInvalidArgument says why they cannot be delivered.
Result<ImageFacts> LookAt(std::span<const std::byte> bytes);

}  // namespace stoker::cli
