// stoker client for C++17: the C ABI of stoker.h with owners and exceptions. Header-only; links
// libstoker alone.
//
//   stoker::Options options;
//   options.spec_text = text;
//   stoker::Stream stream(options);
//   while (auto batch = stream.Next()) {
//     const float* x = batch->tensor("x").data<float>();
//   }                                   // an epoch has ended; stream.ended() says whether the last
//
// Ownership: a Batch gives its slot back when destroyed; tensors borrow it. Errors: stoker::Error
// with the C ABI's code and text. Thread-safety: as stoker.h says.
#ifndef STOKER_STOKER_HPP_
#define STOKER_STOKER_HPP_

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "stoker/stoker.h"

namespace stoker {

class Error : public std::runtime_error {
 public:
  Error(stoker_code code, const char* text) : std::runtime_error(text), code_(code) {}
  stoker_code code() const { return code_; }

 private:
  stoker_code code_;
};

inline void Check(stoker_code code) {
  if (code != STOKER_OK) throw Error(code, stoker_last_error());
}

// Empty texts and zeros mean the C ABI's defaults.
struct Options {
  std::string socket_path;
  std::string stream_name;
  std::string spec_text;
  std::string token;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_world_size = 0;
  std::uint32_t flags = 0;
  stoker_start start = STOKER_START_DEFAULT;
  std::int64_t timeout_ns = 0;
  std::int64_t reconnect_timeout_ns = 0;
};

class Tensor {
 public:
  explicit Tensor(const stoker_tensor& tensor) : tensor_(tensor) {}

  std::string_view name() const {
    return {tensor_.name, static_cast<std::size_t>(tensor_.name_bytes)};
  }
  int ndim() const { return tensor_.ndim; }
  std::int64_t shape(int side) const { return tensor_.shape[side]; }
  std::uint64_t byte_size() const { return tensor_.byte_size; }
  // REQUIRES: T is as large as the tensor's elements; stores only where raw().writable.
  template <typename T>
  T* data() const {
    if (sizeof(T) * 8 != tensor_.dtype_bits)
      throw Error(STOKER_INVALID_ARGUMENT, "elements of another size");
    return static_cast<T*>(tensor_.data);
  }
  const stoker_tensor& raw() const { return tensor_; }

 private:
  stoker_tensor tensor_;
};

class Batch {
 public:
  explicit Batch(stoker_batch* batch) : batch_(batch) {}

  stoker_batch_info info() const {
    stoker_batch_info info = {};
    info.struct_bytes = sizeof(info);
    Check(stoker_batch_get_info(batch_.get(), &info));
    return info;
  }
  Tensor tensor(std::uint32_t index) const {
    stoker_tensor tensor;
    Check(stoker_batch_tensor(batch_.get(), index, &tensor));
    return Tensor(tensor);
  }
  Tensor tensor(const std::string& name) const {
    stoker_tensor tensor;
    Check(stoker_batch_find(batch_.get(), name.c_str(), &tensor));
    return Tensor(tensor);
  }
  std::string token() const {
    char text[STOKER_TOKEN_MAX];
    Check(stoker_batch_token(batch_.get(), text, sizeof(text)));
    return text;
  }

 private:
  struct Release {
    void operator()(stoker_batch* batch) const { stoker_batch_release(batch); }
  };
  std::unique_ptr<stoker_batch, Release> batch_;
};

class Stream {
 public:
  explicit Stream(const Options& options) {
    const auto text = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
    stoker_attach_options ask = {};
    ask.struct_bytes = sizeof(ask);
    ask.rank = options.rank;
    ask.world_size = options.world_size;
    ask.local_world_size = options.local_world_size;
    ask.flags = options.flags;
    ask.start = options.start;
    ask.socket_path = text(options.socket_path);
    ask.stream_name = text(options.stream_name);
    ask.spec_text = text(options.spec_text);
    ask.token = text(options.token);
    ask.timeout_ns = options.timeout_ns;
    ask.reconnect_timeout_ns = options.reconnect_timeout_ns;
    stoker_stream* stream = nullptr;
    Check(stoker_attach(&ask, &stream));
    stream_.reset(stream);
  }

  // The next batch; nothing at an epoch's end.
  std::optional<Batch> Next(std::int64_t timeout_ns = -1) {
    stoker_batch* batch = nullptr;
    const stoker_code code = stoker_next(stream_.get(), timeout_ns, &batch);
    if (code == STOKER_OUT_OF_RANGE) return std::nullopt;
    Check(code);
    return Batch(batch);
  }
  stoker_stream_info info() const {
    stoker_stream_info info = {};
    info.struct_bytes = sizeof(info);
    Check(stoker_stream_get_info(stream_.get(), &info));
    return info;
  }
  bool ended() const { return info().ended != 0; }
  std::string token() const {
    char text[STOKER_TOKEN_MAX];
    Check(stoker_stream_token(stream_.get(), text, sizeof(text)));
    return text;
  }

 private:
  struct Close {
    void operator()(stoker_stream* stream) const { stoker_stream_close(stream); }
  };
  std::unique_ptr<stoker_stream, Close> stream_;
};

}  // namespace stoker

#endif  // STOKER_STOKER_HPP_
