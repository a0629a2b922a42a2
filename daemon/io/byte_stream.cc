#include "daemon/io/byte_stream.h"

#include <algorithm>
#include <cstring>

namespace stoker::io {
namespace {

constexpr std::size_t kInputBytes = 256 << 10;
// igzip reads ahead into a bit buffer and gives unused bytes back, perhaps of the chunk before.
constexpr std::size_t kGivenBack = 16;

class PlainStream final : public ByteStream {
 public:
  PlainStream(const ByteSource& source, std::uint64_t size) : source_(source), size_(size) {}

  std::size_t Read(std::span<std::byte> out) override {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size_ - at_));
    auto n = source_.ReadAt(at_, out.first(want));
    if (!n.ok()) {
      SetFault(FaultClass::kReadError, n.status().message());
      return 0;
    }
    if (*n < want) {
      SetFault(FaultClass::kShardChanged, "the file had " + std::to_string(size_) +
                                              " bytes when it was opened and ends at " +
                                              std::to_string(at_ + *n) + " now");
    }
    at_ += *n;
    return *n;
  }

  std::uint64_t Skip(std::uint64_t bytes) override {
    const std::uint64_t n = std::min(bytes, size_ - at_);
    at_ += n;
    return n;
  }

 private:
  const ByteSource& source_;
  const std::uint64_t size_;
  std::uint64_t at_ = 0;
};

class InflatedStream final : public ByteStream {
 public:
  InflatedStream(const ByteSource& source, std::uint64_t size, Compression compression)
      : source_(source),
        size_(size),
        format_(compression == Compression::kGzip ? ISAL_GZIP : ISAL_ZLIB),
        buffer_(kGivenBack + kInputBytes) {
    Restart();
    state_.next_in = Buffer();
  }

  std::size_t Read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (state_.avail_in == 0 && file_at_ < size_ && !Refill()) break;
      if (!in_member_ && !BeginMember()) break;
      const auto want = static_cast<std::uint32_t>(
          std::min<std::size_t>(out.size() - done, std::size_t{1} << 30));
      state_.next_out = reinterpret_cast<std::uint8_t*>(out.data() + done);
      state_.avail_out = want;
      const std::uint32_t had = state_.avail_in;
      const int result = isal_inflate(&state_);
      const std::uint32_t made = want - state_.avail_out;
      done += made;
      if (result != ISAL_DECOMP_OK) {
        End(FaultClass::kCompressedCorrupt, result == ISAL_INCORRECT_CHECKSUM
                                                ? "its checksum does not match"
                                                : "it is not valid deflate data");
        break;
      }
      if (state_.block_state == ISAL_BLOCK_FINISH) {
        in_member_ = false;
        EndOfMember();
      } else if (made == 0 && state_.avail_in == had) {
        // Only now is the input used up: the inflater holds back up to 8 bytes of it, and output
        // that did not fit before, so that no input left is no sign of the end.
        had == 0 ? End(FaultClass::kCompressedTruncated, "the data ends before its trailer")
                 : End(FaultClass::kCompressedCorrupt, "inflating makes no progress");
      }
    }
    return done;
  }

  std::uint64_t Skip(std::uint64_t bytes) override {
    std::uint64_t done = 0;
    if (bytes > 0) skipped_.resize(64 << 10);
    while (done < bytes) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, skipped_.size()));
      const std::size_t n = Read(std::span(skipped_).first(want));
      done += n;
      if (n < want) break;
    }
    return done;
  }

 private:
  std::uint8_t* Buffer() { return reinterpret_cast<std::uint8_t*>(buffer_.data()) + kGivenBack; }

  void Restart() {
    const std::uint32_t avail = state_.avail_in;
    std::uint8_t* const next = state_.next_in;
    isal_inflate_init(&state_);
    state_.crc_flag = format_;
    state_.avail_in = avail;
    state_.next_in = next;
  }

  void End(FaultClass fault, const std::string& what) {
    ended_ = true;
    SetFault(fault, "compressed byte " + std::to_string(file_at_ - state_.avail_in) + ": " + what);
  }

  // More input. REQUIRES: the file holds more.
  bool Refill() {
    // Keep the last bytes of the chunk before in front of the new one.
    std::memmove(buffer_.data(), buffer_.data() + filled_, kGivenBack);
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(kInputBytes, size_ - file_at_));
    auto n = source_.ReadAt(file_at_, std::span(buffer_).subspan(kGivenBack, want));
    if (!n.ok() || *n == 0) {
      End(n.ok() ? FaultClass::kShardChanged : FaultClass::kReadError,
          n.ok() ? "the file is shorter than when it was opened" : n.status().message());
      return false;
    }
    filled_ = *n;
    file_at_ += *n;
    state_.next_in = Buffer();
    state_.avail_in = static_cast<std::uint32_t>(*n);
    return true;
  }

  // What follows a whole member: nothing, another gzip member, or junk.
  void EndOfMember() {
    ++members_;
    // Behind a zlib trailer igzip keeps what it read ahead.
    const auto kept = static_cast<std::uint32_t>(state_.read_in_length) / 8;
    state_.next_in -= kept;
    state_.avail_in += kept;
    state_.read_in_length = 0;
    if (state_.avail_in == 0 && file_at_ >= size_) {
      ended_ = true;
      return;
    }
    if (format_ == ISAL_ZLIB) End(FaultClass::kCompressedCorrupt, "there is junk after its end");
  }

  bool BeginMember() {
    // One byte tells junk from a member; a header cut after it is found by inflating.
    if (members_ > 0 && *state_.next_in != 0x1f) {
      End(FaultClass::kCompressedCorrupt, "there is junk after its end");
      return false;
    }
    Restart();
    in_member_ = true;
    return true;
  }

  const ByteSource& source_;
  const std::uint64_t size_;
  const std::uint32_t format_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> skipped_;
  std::size_t filled_ = 0;
  std::uint64_t file_at_ = 0;
  std::uint64_t members_ = 0;
  bool in_member_ = false;
  bool ended_ = false;
  inflate_state state_ = {};
};

}  // namespace

std::unique_ptr<ByteStream> OpenStream(const ByteSource& source, std::uint64_t size,
                                       Compression compression) {
  if (compression == Compression::kPlain || size == 0) {
    return std::make_unique<PlainStream>(source, size);
  }
  return std::make_unique<InflatedStream>(source, size, compression);
}

}  // namespace stoker::io
