// BatchReader: a stream read as any trainer reads it, through the C ABI, for the commands.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/cli/common.h"
#include "client/cli/target.h"

namespace stoker::cli {

struct ReadOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string token;
};

struct StreamCloser {
  void operator()(stoker_stream* stream) const { stoker_stream_close(stream); }
};
struct BatchReleaser {
  void operator()(stoker_batch* batch) const { stoker_batch_release(batch); }
};
using StreamPtr = std::unique_ptr<stoker_stream, StreamCloser>;
using BatchPtr = std::unique_ptr<stoker_batch, BatchReleaser>;

// Attaches; an error carries the client library's text. A spec goes along as text.
Result<StreamPtr> Attach(const Globals& globals, const Target& target, const ReadOptions& options);

// The last error of the client library as a Status.
Status LastError(stoker_code code);

std::string_view Name(const stoker_tensor& tensor);

// One row of a tensor: where its real values are. Padding is left out.
struct RowValues {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // values
};

// The tensors of a batch by what they are to each other.
class BatchTensors {
 public:
  explicit BatchTensors(const stoker_batch* batch);

  std::uint32_t size() const { return static_cast<std::uint32_t>(main_.size()); }
  // The spec's own tensors, in its order.
  const stoker_tensor& tensor(std::uint32_t i) const { return main_[i].values; }
  bool varies(std::uint32_t i) const { return main_[i].row_splits != nullptr; }
  bool strings(std::uint32_t i) const { return main_[i].byte_splits != nullptr; }
  bool padded(std::uint32_t i) const { return main_[i].lengths != nullptr; }
  std::int64_t row_id(std::uint32_t row) const { return row_ids_[row]; }
  RowValues Row(std::uint32_t i, std::uint32_t row) const;
  // The strings of a row: [first, last) of byte_splits.
  void Strings(std::uint32_t i, std::uint32_t row, std::uint64_t* first, std::uint64_t* last) const;
  std::string_view String(std::uint32_t i, std::uint64_t number) const;

 private:
  struct Main {
    stoker_tensor values = {};
    const std::int64_t* row_splits = nullptr;
    const std::int64_t* byte_splits = nullptr;
    const std::int64_t* lengths = nullptr;
    std::uint64_t strings_per_row = 0;
  };
  std::uint32_t rows_ = 0;
  std::vector<Main> main_;
  const std::int64_t* row_ids_ = nullptr;
};

}  // namespace stoker::cli
