#include "daemon/io/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr int kGzipWindow = 15 + 16;  // zlib's way to ask for gzip framing
constexpr int kZlibWindow = 15;

}  // namespace

Result<RecordWriter> RecordWriter::Create(const std::string& path, Compression compression) {
  RecordWriter writer;
  writer.path_ = path;
  writer.fd_ = shm::Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!writer.fd_.valid()) {
    return Status(Code::kResourceExhausted, path + ": " + std::strerror(errno));
  }
  if (compression == Compression::kGzip || compression == Compression::kZlib) {
    writer.deflate_.reset(new z_stream{});
    if (deflateInit2(writer.deflate_.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                     compression == Compression::kGzip ? kGzipWindow : kZlibWindow, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      return Status(Code::kInternal, path + ": zlib does not start");
    }
  }
  writer.buffer_.reserve(kBufferBytes);
  return writer;
}

void RecordWriter::EndDeflate::operator()(z_stream* stream) const {
  deflateEnd(stream);
  delete stream;
}

Status RecordWriter::Append(std::span<const std::byte> payload) {
  if (payload.size() > std::numeric_limits<uInt>::max()) {
    return Status(
        Code::kInvalidArgument,
        path_ + ": a record of " + std::to_string(payload.size()) + " bytes is too large");
  }
  std::byte header[kHeaderBytes];
  const std::uint64_t length = payload.size();
  std::memcpy(header, &length, sizeof(length));
  const std::uint32_t length_crc = MaskCrc(Crc32c({header, sizeof(length)}));
  std::memcpy(header + sizeof(length), &length_crc, sizeof(length_crc));
  const std::uint32_t crc = MaskCrc(Crc32c(payload));
  STOKER_TRY(Put(header, Z_NO_FLUSH));
  STOKER_TRY(Put(payload, Z_NO_FLUSH));
  return Put(std::as_bytes(std::span(&crc, 1)), Z_NO_FLUSH);
}

Status RecordWriter::Put(std::span<const std::byte> bytes, int flush) {
  if (!failed_.ok()) return failed_;
  if (deflate_ == nullptr) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() >= kBufferBytes ? Flush() : Status();
  }
  deflate_->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  deflate_->avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  do {
    std::byte out[1 << 16];
    deflate_->next_out = reinterpret_cast<Bytef*>(out);
    deflate_->avail_out = sizeof(out);
    result = deflate(deflate_.get(), flush);
    buffer_.insert(buffer_.end(), out, out + (sizeof(out) - deflate_->avail_out));
    if (buffer_.size() >= kBufferBytes) STOKER_TRY(Flush());
  } while (deflate_->avail_out == 0 || (flush == Z_FINISH && result == Z_OK));
  return Status();
}

Status RecordWriter::Flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      failed_ = Status(Code::kResourceExhausted, path_ + ": " + std::strerror(errno));
      return failed_;
    }
    done += static_cast<std::size_t>(n);
  }
  buffer_.clear();
  return Status();
}

Status RecordWriter::Close() {
  if (deflate_ != nullptr) STOKER_TRY(Put({}, Z_FINISH));
  if (!failed_.ok()) return failed_;
  return Flush();
}

}  // namespace stoker::io
