#include "shm/attach_protocol.h"

#include <cstring>

namespace stoker::shm {
namespace {

// Appends to a buffer of fixed size; once something did not fit nothing more is written.
class Writer {
 public:
  Writer(std::byte* buffer, std::size_t capacity) : buffer_(buffer), capacity_(capacity) {}

  void Put(const void* data, std::size_t bytes) {
    if (bytes > capacity_ - used_) full_ = true;
    if (full_ || bytes == 0) return;
    std::memcpy(buffer_ + used_, data, bytes);
    used_ += bytes;
  }
  void Text(std::string_view text, std::size_t most) {
    if (text.size() > most) full_ = true;
    Put(text.data(), text.size());
  }
  // Puts the header at the front and returns the length, or 0.
  std::size_t Finish(MessageType type) {
    if (full_) return 0;
    const MessageHeader header = {kAttachMagic, static_cast<std::uint16_t>(type), kProtocolVersion,
                                  static_cast<std::uint32_t>(used_), 0};
    std::memcpy(buffer_, &header, sizeof(header));
    return used_;
  }
  void SkipHeader() {
    if (capacity_ < sizeof(MessageHeader)) {
      full_ = true;
      return;
    }
    used_ = sizeof(MessageHeader);
  }

 private:
  std::byte* buffer_;
  std::size_t capacity_;
  std::size_t used_ = 0;
  bool full_ = false;
};

// Reads a body and texts; once something was missing everything after is refused.
class Reader {
 public:
  Reader(const std::byte* message, std::size_t bytes) : at_(message), left_(bytes) {
    Skip(sizeof(MessageHeader));
  }

  void Get(void* out, std::size_t bytes) {
    const std::byte* from = at_;
    if (Skip(bytes)) std::memcpy(out, from, bytes);
  }
  std::string_view Text(std::size_t bytes, std::size_t most) {
    const std::byte* from = at_;
    if (bytes > most) short_ = true;
    if (!Skip(bytes)) return {};
    return {reinterpret_cast<const char*>(from), bytes};
  }
  bool done() const { return !short_ && left_ == 0; }

 private:
  bool Skip(std::size_t bytes) {
    if (bytes > left_) short_ = true;
    if (short_) return false;
    at_ += bytes;
    left_ -= bytes;
    return true;
  }

  const std::byte* at_;
  std::size_t left_;
  bool short_ = false;
};

}  // namespace

std::size_t Encode(const Attach& message, std::byte* buffer, std::size_t capacity) {
  AttachBody body = message.body;
  body.name_bytes = static_cast<std::uint32_t>(message.name.size());
  body.host_bytes = static_cast<std::uint32_t>(message.host.size());
  body.token_bytes = static_cast<std::uint32_t>(message.token.size());
  body.spec_bytes = static_cast<std::uint32_t>(message.spec.size());
  Writer writer(buffer, capacity);
  writer.SkipHeader();
  writer.Put(&body, sizeof(body));
  writer.Text(message.name, kMaxNameBytes);
  writer.Text(message.host, kMaxHostBytes);
  writer.Text(message.token, kMaxTokenBytes);
  writer.Text(message.spec, kMaxSpecBytes);
  return writer.Finish(MessageType::kAttach);
}

std::size_t Encode(const Attached& message, std::byte* buffer, std::size_t capacity) {
  AttachedBody body = message.body;
  body.name_bytes = static_cast<std::uint32_t>(message.name.size());
  Writer writer(buffer, capacity);
  writer.SkipHeader();
  writer.Put(&body, sizeof(body));
  writer.Text(message.name, kMaxNameBytes);
  return writer.Finish(MessageType::kAttached);
}

std::size_t Encode(MessageType type, const Text& message, std::byte* buffer, std::size_t capacity) {
  std::string_view text = message.text;
  if (text.size() > kMaxTextBytes) text = std::string_view(text.data(), kMaxTextBytes);
  const TextBody body = {message.code, static_cast<std::uint32_t>(text.size())};
  Writer writer(buffer, capacity);
  writer.SkipHeader();
  writer.Put(&body, sizeof(body));
  writer.Text(text, kMaxTextBytes);
  return writer.Finish(type);
}

std::size_t EncodeDetach(std::byte* buffer, std::size_t capacity) {
  Writer writer(buffer, capacity);
  writer.SkipHeader();
  return writer.Finish(MessageType::kDetach);
}

std::size_t EncodeOldArenaGone(std::byte* buffer, std::size_t capacity) {
  Writer writer(buffer, capacity);
  writer.SkipHeader();
  return writer.Finish(MessageType::kOldArenaGone);
}

const char* DecodeHeader(const std::byte* message, std::size_t bytes, MessageType* type,
                         std::uint16_t* version) {
  MessageHeader header;
  if (bytes < sizeof(header)) return "the message is shorter than its header";
  std::memcpy(&header, message, sizeof(header));
  if (header.magic != kAttachMagic) return "this is not the attach protocol";
  if (header.bytes != bytes) return "the message's length is not what its header says";
  *version = header.version;
  if (header.version < kOldestProtocolVersion || header.version > kProtocolVersion) {
    return "this version of the attach protocol is not spoken here";
  }
  if (header.type < static_cast<std::uint16_t>(MessageType::kAttach) ||
      header.type > static_cast<std::uint16_t>(MessageType::kOldArenaGone)) {
    return "the message's type is unknown";
  }
  *type = static_cast<MessageType>(header.type);
  return nullptr;
}

bool Decode(const std::byte* message, std::size_t bytes, Attach* out) {
  Reader reader(message, bytes);
  reader.Get(&out->body, sizeof(out->body));
  out->name = reader.Text(out->body.name_bytes, kMaxNameBytes);
  out->host = reader.Text(out->body.host_bytes, kMaxHostBytes);
  out->token = reader.Text(out->body.token_bytes, kMaxTokenBytes);
  out->spec = reader.Text(out->body.spec_bytes, kMaxSpecBytes);
  return reader.done();
}

bool Decode(const std::byte* message, std::size_t bytes, Attached* out) {
  Reader reader(message, bytes);
  reader.Get(&out->body, sizeof(out->body));
  out->name = reader.Text(out->body.name_bytes, kMaxNameBytes);
  return reader.done();
}

bool Decode(const std::byte* message, std::size_t bytes, Text* out) {
  TextBody body = {};
  Reader reader(message, bytes);
  reader.Get(&body, sizeof(body));
  out->code = body.code;
  out->text = reader.Text(body.text_bytes, kMaxTextBytes);
  return reader.done();
}

}  // namespace stoker::shm
