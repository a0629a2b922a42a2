#include "client/cli/salvage.h"

#include <algorithm>

#include "daemon/io/framing.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kWindow = 1 << 20;

}  // namespace

Salvager::Salvager(const io::ByteSource& source, std::uint64_t size, io::Compression compression,
                   std::uint64_t from, std::uint64_t number, std::optional<std::uint64_t> before)
    : source_(source), size_(size), at_(from), number_(number) {
  if (compression == io::Compression::kPlain) {
    if (!before) return;
    const auto header = Peek(*before, io::kHeaderBytes);
    if (header.size() < io::kHeaderBytes) return;
    const std::uint64_t length = io::ParseHeader(header.data()).length;
    if (!PayloadGood(*before, length)) damaged_before_ = before;
    return;
  }
  stream_ = io::OpenStream(source, size, compression);
  scanner_ = std::make_unique<io::RecordScanner>(stream_.get(), io::RecordScanner::Options());
}

bool Salvager::Next(std::span<const std::byte>* payload, std::vector<Loss>* losses) {
  return scanner_ != nullptr ? NextInflated(payload, losses) : NextPlain(payload, losses);
}

bool Salvager::NextInflated(std::span<const std::byte>* payload, std::vector<Loss>* losses) {
  io::RecordScanner::Record record;
  while (!ended_ && scanner_->Next(&record)) {
    at_ = scanner_->offset();
    if (record.fault == FaultClass::kNone) {
      *payload = record.payload;
      return true;
    }
    losses->push_back(
        {record.number, record.offset, record.length + io::kFramingBytes, record.fault, ""});
  }
  if (const auto& damage = scanner_->damage(); damage && !ended_) {
    losses->push_back({damage->record, damage->offset, 0, damage->fault, damage->detail});
  }
  ended_ = true;
  return false;
}

bool Salvager::NextPlain(std::span<const std::byte>* payload, std::vector<Loss>* losses) {
  while (at_ < size_) {
    const std::uint64_t left = size_ - at_;
    const auto lose = [&](FaultClass fault, std::uint64_t next, std::string detail) {
      losses->push_back({number_, at_, next > at_ ? next - at_ : 0, fault, std::move(detail)});
      ++number_;
      at_ = next;
    };
    const auto first = Peek(at_, std::min(left, io::kHeaderBytes));
    if (!read_error_.empty()) {
      lose(FaultClass::kReadError, size_, read_error_);
      return false;
    }
    if (left < io::kHeaderBytes) {
      lose(FaultClass::kTruncatedHeader, size_,
           "the file ends after " + std::to_string(left) + " of 12 header bytes");
      return false;
    }
    const io::RecordHeader header = io::ParseHeader(first.data());
    const bool fits = header.length <= left && header.length + io::kFramingBytes <= left;
    const FaultClass header_fault =
        at_ == 0 ? FaultClass::kNotATfRecord : FaultClass::kHeaderCrcMismatch;
    if (!header.crc_good && !(fits && PayloadGood(at_, header.length))) {
      lose(header_fault, Search(damaged_before_.value_or(at_) + 1),
           "the length's checksum is wrong");
      damaged_before_.reset();
      continue;
    }
    if (!fits) {
      lose(FaultClass::kTruncatedPayload, Search(at_ + 1),
           "the record says " + std::to_string(header.length) +
               " bytes, which the file does not hold");
      continue;
    }
    const std::uint64_t whole = header.length + io::kFramingBytes;
    if (header.length > kMaxRecordBytes) {
      lose(FaultClass::kRecordTooLarge, at_ + whole, std::to_string(header.length) + " bytes");
      continue;
    }
    const auto record = Peek(at_, whole);
    if (record.size() < whole) {
      lose(FaultClass::kReadError, size_, read_error_);
      return false;
    }
    const auto content = record.subspan(io::kHeaderBytes, header.length);
    const std::byte* stored = content.data() + content.size();
    if (MaskCrc(Crc32c(content)) != io::LoadLittle<std::uint32_t>(stored)) {
      buffered_ = 0;  // storage sometimes lies once
      if (!PayloadGood(at_, header.length)) {
        damaged_before_ = at_;
        lose(FaultClass::kPayloadCrcMismatch, at_ + whole, "");
      }
      continue;
    }
    if (!header.crc_good) {
      losses->push_back({number_, at_, 0, header_fault,
                         "the length's checksum is wrong, the length and the payload are right",
                         true});
    }
    damaged_before_.reset();
    ++number_;
    at_ += whole;
    *payload = content;
    return true;
  }
  return false;
}

std::span<const std::byte> Salvager::Peek(std::uint64_t offset, std::uint64_t bytes) {
  const bool here = offset >= buffer_at_ && offset + bytes <= buffer_at_ + buffered_;
  if (!here) {
    const auto want = static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max<std::uint64_t>(bytes, kWindow), size_ - offset));
    if (buffer_.size() < want) buffer_.resize(want);
    auto n = source_.ReadAt(offset, std::span(buffer_).first(want));
    if (!n.ok()) read_error_ = n.status().message();
    if (n.ok() && *n < want) read_error_ = "the file has become shorter";
    buffer_at_ = offset;
    buffered_ = n.ok() ? *n : 0;
  }
  const std::uint64_t begin = offset - buffer_at_;
  const auto have = std::min<std::uint64_t>(bytes, buffered_ > begin ? buffered_ - begin : 0);
  return std::span<const std::byte>(buffer_).subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(have));
}

// In pieces: a length that nobody vouches for gets no room.
bool Salvager::PayloadGood(std::uint64_t offset, std::uint64_t length) {
  std::uint64_t at = offset + io::kHeaderBytes;
  if (length > size_ || at + length + io::kFooterBytes > size_) return false;
  RunningCrc crc;
  for (std::uint64_t left = length; left > 0;) {
    const auto piece = Peek(at, std::min<std::uint64_t>(left, kWindow));
    if (piece.empty()) return false;
    crc.Update(piece);
    at += piece.size();
    left -= piece.size();
  }
  const auto stored = Peek(at, io::kFooterBytes);
  return stored.size() == io::kFooterBytes &&
         io::LoadLittle<std::uint32_t>(stored.data()) == crc.masked();
}

std::uint64_t Salvager::Search(std::uint64_t from) {
  while (from + io::kFramingBytes <= size_ && read_error_.empty()) {
    const auto window = Peek(from, std::min<std::uint64_t>(kWindow, size_ - from));
    const std::size_t places =
        window.size() < io::kFramingBytes ? 0 : window.size() - io::kFramingBytes + 1;
    std::optional<std::uint64_t> found;
    for (std::size_t i = 0; i < places && !found; ++i) {
      // Of a wrong place's eight bytes hardly any are a length that the file could hold.
      if (io::LoadLittle<std::uint64_t>(window.data() + i) > size_ - from - i) continue;
      if (io::ParseHeader(window.data() + i).crc_good) found = from + i;
    }
    if (!found) {
      from += std::max<std::size_t>(places, 1);
      continue;
    }
    const auto header = Peek(*found, io::kHeaderBytes);
    if (header.size() < io::kHeaderBytes) break;
    if (PayloadGood(*found, io::ParseHeader(header.data()).length)) return *found;
    from = *found + 1;
  }
  return size_;
}

}  // namespace stoker::cli
