// RecordWriter: appends records to a TFRecord file, plain, GZIP or ZLIB.
//
// Thread-safety: one thread at a time. Errors: kResourceExhausted with path and errno text; after
// one the file is unfinished and Close() says so again.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <memory>
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
  RecordWriter(RecordWriter&&) noexcept = default;
  RecordWriter& operator=(RecordWriter&&) = delete;
  ~RecordWriter() = default;

  Status Append(std::span<const std::byte> payload);
  // Writes what is buffered and the trailer. Must be called; the destructor only lets go.
  Status Close();

 private:
  RecordWriter() = default;
  struct EndDeflate {
    void operator()(z_stream* stream) const;
  };
  Status Put(std::span<const std::byte> bytes, int flush);
  Status Flush();

  std::string path_;
  shm::Fd fd_;
  std::unique_ptr<z_stream, EndDeflate> deflate_;  // null: plain
  std::vector<std::byte> buffer_;
  Status failed_;  // the first error: nothing is written after it
};

}  // namespace stoker::io
