#include "daemon/io/record_scanner.h"

#include <algorithm>
#include <cstring>

#include "daemon/io/framing.h"

namespace stoker::io {
namespace {

constexpr std::size_t kBlock = 1 << 20;  // read at once where records are small
constexpr std::size_t kHop = 4 << 10;    // and where payloads are passed over

}  // namespace

RecordScanner::RecordScanner(ByteStream* stream, Options options)
    : stream_(stream), options_(options), buffer_(kBlock) {}

bool RecordScanner::Stop(FaultClass fault, std::string detail) {
  damage_ = Damage{fault, number_, offset_, std::move(detail)};
  return false;
}

// Bytes are missing: the stream's own fault tells more than the missing bytes do.
bool RecordScanner::StopShort(FaultClass fault, const std::string& detail) {
  if (stream_->fault() != FaultClass::kNone) return Stop(stream_->fault(), stream_->detail());
  return Stop(fault, detail);
}

std::size_t RecordScanner::Ensure(std::size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // A record larger than the buffer: room doubles as its bytes arrive, whatever it claims.
    if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    std::size_t want = buffer_.size() - end_;
    if (!options_.payloads && last_length_ > kHop) want = std::min(want, std::max(bytes, kHop));
    const std::size_t n = stream_->Read(std::span(buffer_).subspan(end_, want));
    end_ += n;
    if (n < want) break;
  }
  return end_ - begin_;
}

bool RecordScanner::PassOver(std::uint64_t bytes) {
  const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end_ - begin_));
  begin_ += here;
  return stream_->Skip(bytes - here) == bytes - here;
}

bool RecordScanner::Next(Record* record) {
  if (damage_) return false;
  const std::size_t have = Ensure(kHeaderBytes);
  if (have == 0) {
    if (stream_->fault() != FaultClass::kNone) return StopShort(FaultClass::kReadError, "");
    return false;
  }
  if (have < kHeaderBytes) {
    return StopShort(FaultClass::kTruncatedHeader,
                     "the file ends after " + std::to_string(have) + " of 12 header bytes");
  }
  const RecordHeader header = ParseHeader(buffer_.data() + begin_);
  if (!header.crc_good) {
    return offset_ == 0 ? Stop(FaultClass::kNotATfRecord, "the first 12 bytes are no record header")
                        : Stop(FaultClass::kHeaderCrcMismatch, "the length's checksum is wrong");
  }
  const std::string cut =
      "the record says " + std::to_string(header.length) + " bytes, which the file does not hold";
  constexpr std::uint64_t kFarthest = std::uint64_t{1} << 62;
  if (header.length > kFarthest ||
      (options_.stream_bytes &&
       header.length + kFramingBytes >
           *options_.stream_bytes - std::min(offset_, *options_.stream_bytes))) {
    return Stop(FaultClass::kTruncatedPayload, cut);
  }

  *record = Record{number_, offset_, header.length, 0, FaultClass::kNone, {}};
  begin_ += kHeaderBytes;
  const bool too_large = header.length > options_.max_record_bytes;
  if (too_large) record->fault = FaultClass::kRecordTooLarge;
  if (options_.payloads && !too_large) {
    const std::uint64_t whole = header.length + kFooterBytes;
    if (Ensure(static_cast<std::size_t>(whole)) < whole) {
      return StopShort(FaultClass::kTruncatedPayload, cut);
    }
    record->payload = std::span(buffer_).subspan(begin_, static_cast<std::size_t>(header.length));
    record->stored_crc = LoadLittle<std::uint32_t>(buffer_.data() + begin_ + header.length);
    if (options_.verify && MaskCrc(Crc32c(record->payload)) != record->stored_crc) {
      record->fault = FaultClass::kPayloadCrcMismatch;
      record->payload = {};
    }
    begin_ += static_cast<std::size_t>(whole);
  } else {
    last_length_ = header.length;
    if (!PassOver(header.length) || Ensure(kFooterBytes) < kFooterBytes) {
      return StopShort(FaultClass::kTruncatedPayload, cut);
    }
    record->stored_crc = LoadLittle<std::uint32_t>(buffer_.data() + begin_);
    begin_ += kFooterBytes;
  }
  offset_ += header.length + kFramingBytes;
  ++number_;
  return true;
}

}  // namespace stoker::io
