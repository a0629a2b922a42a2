// ByteSource: bytes that are read by position. The seam at which tests inject what storage does.
//
// FileSource reads a file with pread. It is never mapped: a file that is truncated while it is
// read must be an error, and a mapping makes it a SIGBUS.
//
// Thread-safety: ReadAt() from any thread. Errors: kDataLoss with errno text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/base/status.h"
#include "shm/fd.h"

namespace stoker::io {

struct FileIdentity {
  std::uint64_t size = 0;
  std::uint64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;

  bool operator==(const FileIdentity&) const = default;

  // Whether a file that was `*this` may hold other bytes than then, seeing what it is `now`: it
  // shrank, was replaced, or was written without growing. One that grew was appended to, and what
  // it held before still counts.
  bool RewrittenAs(const FileIdentity& now) const {
    return now.inode != inode || now.device != device || now.size < size ||
           (now.size == size && now.mtime_ns != mtime_ns);
  }
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out` from `offset`; fewer bytes only at the end.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> out) const = 0;
  virtual Result<FileIdentity> Identity() const = 0;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(shm::Fd fd) : fd_(std::move(fd)) {}

  // Opens `path`. With a `root` the path must lie under it, and is resolved beneath it: no link
  // and no `..` leads out. kPermissionDenied, kNotFound with path, errno text and our user.
  static Result<FileSource> Open(const std::string& path, const std::string& root);

  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> out) const override;
  Result<FileIdentity> Identity() const override;
  int fd() const { return fd_.get(); }

 private:
  shm::Fd fd_;
};

}  // namespace stoker::io
