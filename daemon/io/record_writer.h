// RecordWriter: appends records to a TFRecord file, plain, GZIP or ZLIB.
//
// Thread-safety: one thread at a time. Errors: kResourceExhausted with path and errno text; after
// one the file is unfinished and Close() says so again.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/io/manifest.h"
#include "shm/fd.h"

namespace stoker::io {

class RecordWriter {
 public:
  // Makes or replaces `path`.
  static Result<RecordWriter> Create(const std::string& path, Compression compression);
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&&) = delete;
  ~RecordWriter();

  Status Append(std::span<const std::byte> payload);
  // Writes what is buffered and the trailer. Must be called; the destructor only lets go.
  Status Close();

 private:
  RecordWriter() = default;
  Status Put(std::span<const std::byte> bytes, int flush);
  Status Flush();

  std::string path_;
  shm::Fd fd_;
  bool compressed_ = false;
  z_stream* deflate_ = nullptr;
  std::vector<std::byte> buffer_;
};

}  // namespace stoker::io
