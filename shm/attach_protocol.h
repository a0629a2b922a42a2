// The attach protocol: fixed little-endian messages over attach.sock (SOCK_SEQPACKET).
//
//   client                       daemon
//     Attach        ─────────▶
//                   ◀─────────   Attached (arena, mailbox and eventfd come with it) | Refused
//     … batches flow through the mailbox …
//                   ◀─────────   Error | Notice | Closing
//     OldArenaGone  ─────────▶
//     Detach        ─────────▶   (end-of-file means the same)
//
// A message is MessageHeader, its type's body, then its texts one after the other, whose lengths
// the body holds. The type fixes the number of descriptors. docs/formats/attach.md is normative.
// The daemon speaks version kProtocolVersion and the one before.
//
// Thread-safety: plain functions. No allocation; views borrow the buffer they were decoded from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker::shm {

inline constexpr std::uint32_t kAttachMagic = 0x48415453;  // "STAH"
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint16_t kOldestProtocolVersion = 1;
inline constexpr std::uint32_t kMaxNameBytes = 128;
inline constexpr std::uint32_t kMaxTokenBytes = 256;
inline constexpr std::uint32_t kMaxHostBytes = 256;
inline constexpr std::uint32_t kMaxSpecBytes = 128 << 10;
inline constexpr std::uint32_t kMaxTextBytes = 16 << 10;
inline constexpr std::uint32_t kMaxMessageBytes = kMaxSpecBytes + 4096;

enum class MessageType : std::uint16_t {
  kAttach = 1,
  kAttached = 2,
  kRefused = 3,
  kError = 4,    // sent before the error's word is pushed; sticky
  kNotice = 5,   // worth a log line
  kClosing = 6,  // the stream or the daemon goes away; batches in hand stay readable
  kDetach = 7,
  kOldArenaGone = 8,  // the client no longer maps the earlier arena that its Attach reported
};

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t type;
  std::uint16_t version;
  std::uint32_t bytes;  // of the whole message
  std::uint32_t reserved;
};
static_assert(sizeof(MessageHeader) == 16);

enum class StartAt : std::uint32_t { kDefault = 0, kBegin = 1, kContinue = 2 };
enum class JoinAt : std::uint32_t { kNow = 0, kNextEpoch = 1 };

struct AttachBody {
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t local_world_size;
  std::uint32_t start;            // StartAt
  std::uint32_t join;             // JoinAt
  std::uint32_t batch_size;       // wanted by a BROADCAST consumer; 0: the stream's
  std::int64_t timeout_ms;        // how long the daemon may wait for the stream to be ready
  std::uint64_t old_arena_bytes;  // of an earlier daemon, still mapped by the client
  std::int64_t pid;               // in the client's own pid namespace
  std::uint32_t name_bytes;
  std::uint32_t host_bytes;
  std::uint32_t token_bytes;
  std::uint32_t spec_bytes;  // 0: the stream is open already
};
static_assert(sizeof(AttachBody) == 64);

struct AttachedBody {
  std::uint64_t consumer;
  std::uint64_t arena_bytes;
  std::uint64_t slot_bytes;
  std::uint32_t slots;
  std::uint32_t exclusive;  // 1: the client owns the slots it holds and may write in them
  std::uint64_t epoch;      // where its batches begin
  std::uint64_t row;
  std::uint64_t steps_per_epoch;
  std::uint64_t rows_per_epoch;
  std::uint64_t repeat;  // epochs; 0: for ever
  std::uint64_t plan_id;
  // What the client's own tokens carry beside the position (docs/formats/token.md).
  std::uint64_t seed;
  std::uint64_t paths_hash;
  std::uint64_t data_hash;
  std::uint32_t batch;
  std::uint32_t world_size;
  std::uint32_t source_hash;
  std::uint32_t order_hash;
  std::uint32_t tensors_hash;
  std::uint32_t batch_hash;
  std::uint32_t delivery_hash;
  std::uint32_t name_bytes;
};
static_assert(sizeof(AttachedBody) == 136);
inline constexpr std::size_t kAttachedFds = 3;  // arena, mailbox, eventfd, in this order

struct TextBody {     // Refused, Error, Notice, Closing
  std::int32_t code;  // gRPC's canonical number
  std::uint32_t text_bytes;
};
static_assert(sizeof(TextBody) == 8);

struct Attach {
  AttachBody body = {};
  std::string_view name;
  std::string_view host;
  std::string_view token;
  std::string_view spec;
};
struct Attached {
  AttachedBody body = {};
  std::string_view name;
};
struct Text {
  std::int32_t code = 0;
  std::string_view text;
};

// Writes a message into `buffer` and returns its length, 0 where it does not fit or a text is over
// its limit. Lengths in the body are set from the texts; a Text's text is cut at kMaxTextBytes.
std::size_t Encode(const Attach& message, std::byte* buffer, std::size_t capacity);
std::size_t Encode(const Attached& message, std::byte* buffer, std::size_t capacity);
std::size_t Encode(MessageType type, const Text& message, std::byte* buffer, std::size_t capacity);
std::size_t EncodeDetach(std::byte* buffer, std::size_t capacity);
std::size_t EncodeOldArenaGone(std::byte* buffer, std::size_t capacity);

// Checks the header. nullptr where the message is well-formed so far, else what is wrong with it.
const char* DecodeHeader(const std::byte* message, std::size_t bytes, MessageType* type,
                         std::uint16_t* version);
// The rest, after DecodeHeader. False where lengths do not add up or are over their limits.
bool Decode(const std::byte* message, std::size_t bytes, Attach* out);
bool Decode(const std::byte* message, std::size_t bytes, Attached* out);
bool Decode(const std::byte* message, std::size_t bytes, Text* out);

// The descriptors that a message of `type` carries.
constexpr std::size_t FdsOf(MessageType type) {
  return type == MessageType::kAttached ? kAttachedFds : 0;
}

}  // namespace stoker::shm
