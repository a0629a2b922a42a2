#include "client/cli/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "daemon/image/jpeg.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

std::uint32_t Big(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8 | static_cast<std::uint32_t>(bytes[at + i]);
  }
  return value;
}

// The sides that a JPEG's frame header states. REQUIRES: a complete JPEG.
bool JpegSides(std::span<const std::byte> bytes, ImageFacts* facts) {
  for (std::size_t at = 2; at + 9 < bytes.size();) {
    if (Big(bytes, at, 1) != 0xff) {
      ++at;
      continue;
    }
    const std::uint32_t marker = Big(bytes, at + 1, 1);
    const bool alone =
        marker == 0xff || marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) {
      at += marker == 0xff ? 1 : 2;
      continue;
    }
    // SOF0 to SOF15, but for the tables and reservations among them.
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      facts->height = Big(bytes, at + 5, 2);
      facts->width = Big(bytes, at + 7, 2);
      return true;
    }
    if (marker == 0xda || marker == 0xd9) return false;
    at += 2 + Big(bytes, at + 2, 2);
  }
  return false;
}

std::string PrefixOf(const std::string& name) {
  const std::string stem = fs::path(name).stem().string();
  std::string prefix = stem.substr(0, stem.find_first_of("0123456789"));
  while (!prefix.empty() && std::string("-_. (").find(prefix.back()) != std::string::npos) {
    prefix.pop_back();
  }
  return prefix;
}

// Paths below `folder`, sorted.
Status Walk(const std::string& folder, std::vector<std::string>* paths, std::uint64_t* hidden) {
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  const fs::recursive_directory_iterator end;
  for (; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code kind;
    if (name[0] == '.') {
      ++*hidden;
      if (it->is_directory(kind)) it.disable_recursion_pending();
    } else if (!it->is_directory(kind)) {
      paths->push_back(it->path().lexically_relative(folder).string());
    }
  }
  if (error) return Status(Code::kResourceExhausted, folder + ": " + error.message());
  std::sort(paths->begin(), paths->end());
  return Status();
}

}  // namespace

Result<ImageFolder> ImageFolder::Scan(const std::string& folder, ClassesFrom from) {
  ImageFolder out;
  std::vector<std::string> paths;
  STOKER_TRY(Walk(folder, &paths, &out.hidden));
  if (paths.empty()) return Status(Code::kInvalidArgument, folder + ": there are no files in it");
  const auto nested = static_cast<std::size_t>(std::count_if(
      paths.begin(), paths.end(), [](const auto& path) { return path.find('/') != path.npos; }));
  if (from == ClassesFrom::kAuto && nested != 0 && nested != paths.size()) {
    return Status(Code::kInvalidArgument,
                  folder + ": " + std::to_string(nested) + " files lie in folders and " +
                      std::to_string(paths.size() - nested) +
                      " do not; say --classes folders or --classes prefixes");
  }
  const bool folders = from == ClassesFrom::kFolders || (from == ClassesFrom::kAuto && nested > 0);
  std::vector<std::string> of_file;
  for (const auto& path : paths) {
    const fs::path whole(path);
    of_file.push_back(folders ? whole.parent_path().string() : PrefixOf(whole.filename().string()));
    if (!of_file.back().empty()) continue;
    return Status(Code::kInvalidArgument,
                  folder + "/" + path +
                      (folders ? ": lies in no class's folder; move it into one"
                               : ": its name has no letters before its number to tell a class by"));
  }
  std::set<std::string> classes(of_file.begin(), of_file.end());
  out.classes.assign(classes.begin(), classes.end());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto place = std::lower_bound(out.classes.begin(), out.classes.end(), of_file[i]);
    out.files.push_back({paths[i], static_cast<std::uint32_t>(place - out.classes.begin())});
  }
  return out;
}

Result<ImageFacts> LookAt(std::span<const std::byte> bytes) {
  const std::string format = image::FormatName(bytes);
  ImageFacts facts;
  bool sides = false;
  if (format == "JPEG") {
    facts.format = "jpeg";
    if (!image::WalkJpeg(bytes).complete) {
      return Status(Code::kInvalidArgument, "bad-image: the JPEG has no end marker: it is cut");
    }
    sides = JpegSides(bytes, &facts);
  } else if (format == "PNG") {
    facts.format = "png";
    sides = bytes.size() >= 24;
    if (sides) facts.width = Big(bytes, 16, 4);
    if (sides) facts.height = Big(bytes, 20, 4);
  } else {
    return Status(Code::kInvalidArgument,
                  "unsupported-image-format: it is " + format + ", not JPEG or PNG");
  }
  if (!sides || facts.height == 0 || facts.width == 0) {
    return Status(Code::kInvalidArgument, "bad-image: it does not say how large it is");
  }
  return facts;
}

}  // namespace stoker::cli
