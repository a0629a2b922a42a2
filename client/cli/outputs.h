// Staged: an output that is there whole or not at all.
//
// It is written under a temporary name in the same folder, a name that begins with a dot and that
// no wildcard of a spec matches, and takes its own name last. Nothing that is there is ever
// replaced.
//
// Ownership: what was not kept is removed by the destructor, also after an interrupt, if the writer
//   looks at Interrupted() and gives up. Thread-safety: one thread at a time.
// Errors: kFailedPrecondition where the name is taken, kResourceExhausted with path and errno text.
#pragma once

#include <string>
#include <utility>

#include "daemon/base/status.h"

namespace stoker::cli {

class Staged {
 public:
  // Nothing is made yet: the writer makes the file at temporary().
  static Result<Staged> File(const std::string& path);
  // Makes the folder temporary().
  static Result<Staged> Folder(const std::string& path);
  Staged(Staged&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, "")),
        folder_(other.folder_) {}
  Staged& operator=(Staged&&) = delete;
  ~Staged();

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }

  // Makes it durable and gives it its name.
  Status Keep();
  // As Keep(), under another name, which is not known before the end.
  Status KeepAs(const std::string& path);

 private:
  Staged(std::string path, bool folder);

  std::string path_;
  std::string temporary_;  // empty: kept, or moved from
  bool folder_;
};

// From here on SIGINT, SIGTERM and SIGHUP make Interrupted() true; a second one ends the process.
void WatchInterrupts();
bool Interrupted();
// The status of a writer that gives up.
Status InterruptedStatus();

}  // namespace stoker::cli
