#include "client/cli/outputs.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "shm/fd.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> g_interrupted{false};

void OnSignal(int) { g_interrupted.store(true, std::memory_order_relaxed); }

Status ErrnoStatus(const std::string& what) {
  return Status(Code::kResourceExhausted, what + ": " + std::strerror(errno));
}

Status Taken(const std::string& path) {
  return Status(Code::kFailedPrecondition,
                path + " is there already and is not replaced; remove it, or choose another name");
}

bool Exists(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

Status Sync(const std::string& path) {
  const shm::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Some file systems cannot sync a folder, and say EINVAL.
  if (!fd.valid() || (fsync(fd.get()) != 0 && errno != EINVAL)) return ErrnoStatus(path);
  return Status();
}

std::string FolderOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// A rename that never replaces.
Status Rename(const std::string& from, const std::string& to, bool folder) {
  if (syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return Status();
  }
  if (errno == EEXIST) return Taken(to);
  if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(to);
  // The file system does not know the flag. A second name never replaces, nor does a folder's
  // rename replace one that holds anything.
  if (!folder && link(from.c_str(), to.c_str()) == 0) return Status();
  if (folder && !Exists(to) && rename(from.c_str(), to.c_str()) == 0) return Status();
  return errno == EEXIST || Exists(to) ? Taken(to) : ErrnoStatus(to);
}

}  // namespace

Staged::Staged(std::string path, bool folder) : path_(std::move(path)), folder_(folder) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  const fs::path whole(path_);
  temporary_ =
      FolderOf(path_) + "/." + whole.filename().string() + ".partial-" + std::to_string(getpid());
}

Result<Staged> Staged::File(const std::string& path) {
  Staged staged(path, false);
  if (Exists(staged.path_)) return Taken(staged.path_);
  if (!fs::is_directory(FolderOf(staged.path_))) {
    return Status(Code::kNotFound, staged.path_ + ": there is no folder " + FolderOf(staged.path_) +
                                       "; make it first");
  }
  return staged;
}

Result<Staged> Staged::Folder(const std::string& path) {
  Staged staged(path, true);
  if (Exists(staged.path_)) return Taken(staged.path_);
  std::error_code error;
  fs::create_directories(staged.temporary_, error);
  if (error) return Status(Code::kResourceExhausted, staged.path_ + ": " + error.message());
  return staged;
}

Staged::~Staged() {
  if (temporary_.empty()) return;
  std::error_code error;
  fs::remove_all(temporary_, error);
}

Status Staged::Keep() { return KeepAs(path_); }

Status Staged::KeepAs(const std::string& path) {
  if (folder_) {
    std::error_code error;
    for (fs::directory_iterator it(temporary_, error), end; !error && it != end;
         it.increment(error)) {
      STOKER_TRY(Sync(it->path().string()));
    }
    if (error) return Status(Code::kResourceExhausted, temporary_ + ": " + error.message());
  }
  STOKER_TRY(Sync(temporary_));
  STOKER_TRY(Rename(temporary_, path, folder_));
  if (!folder_) unlink(temporary_.c_str());  // where the name was given by a second link
  temporary_.clear();
  return Sync(FolderOf(path));
}

void WatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

bool Interrupted() { return g_interrupted.load(std::memory_order_relaxed); }

Status InterruptedStatus() { return Status(Code::kCancelled, "interrupted; nothing was written"); }

}  // namespace stoker::cli
