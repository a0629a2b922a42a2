// Status: the outcome of a daemon operation. A code the caller can branch on, and a message a
// person can act on. Result<T>: a T, or the Status that explains why there is none.
//
// Codes carry the numbers of the canonical gRPC codes, so a Status crosses the control plane and
// the client ABI without a translation table.
//
// Thread-safety: a const Status may be read from any thread.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace stoker {

enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,   // fix the config, the call or the file
  kDeadlineExceeded = 4,  // nothing yet
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,   // a limit that has a name; the message names it
  kFailedPrecondition = 9,  // wrong use, or wrong order of calls
  kOutOfRange = 11,         // the end of a shard, an epoch or a stream: not a fault
  kUnimplemented = 12,
  kInternal = 13,     // our bug
  kUnavailable = 14,  // try again, attach again
  kDataLoss = 15,     // bytes that were written are not the bytes that were read
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns this status with `where` put before its message; OK stays OK.
  Status Annotate(const std::string& where) && {
    if (!ok()) message_ = where + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace stoker

#define STOKER_TRY(expr)                                        \
  do {                                                          \
    if (::stoker::Status stoker_st = (expr); !stoker_st.ok()) { \
      return stoker_st;                                         \
    }                                                           \
  } while (false)
