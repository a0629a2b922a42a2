#include "client/cli/batch_reader.h"

#include "config/spec.h"

namespace stoker::cli {

Status LastError(stoker_code code) { return Status(static_cast<Code>(code), stoker_last_error()); }

Result<StreamPtr> Attach(const Globals& globals, const Target& target, const ReadOptions& options) {
  const std::string socket = RuntimeDir(globals) + "/attach.sock";
  std::string spec_text;
  stoker_attach_options ask = {};
  ask.struct_bytes = sizeof(ask);
  ask.rank = options.rank;
  ask.world_size = options.world_size;
  ask.socket_path = socket.c_str();
  if (target.spec) {
    spec_text = config::SpecText(*target.spec);
    ask.spec_text = spec_text.c_str();
  } else {
    ask.stream_name = target.name.c_str();
  }
  if (!options.token.empty()) ask.token = options.token.c_str();
  stoker_stream* stream = nullptr;
  const stoker_code code = stoker_attach(&ask, &stream);
  if (code != STOKER_OK) return LastError(code);
  return StreamPtr(stream);
}

std::string_view Name(const stoker_tensor& tensor) { return {tensor.name, tensor.name_bytes}; }

BatchTensors::BatchTensors(const stoker_batch* batch) {
  stoker_batch_info info = {};
  info.struct_bytes = sizeof(info);
  stoker_batch_get_info(batch, &info);
  rows_ = info.rows;
  std::vector<std::size_t> place(info.tensors);
  for (std::uint32_t i = 0; i < info.tensors; ++i) {
    stoker_tensor tensor;
    stoker_batch_tensor(batch, i, &tensor);
    const auto* numbers = static_cast<const std::int64_t*>(tensor.data);
    switch (tensor.role) {
      case STOKER_ROLE_DENSE:
      case STOKER_ROLE_VALUES:
        place[i] = main_.size();
        main_.emplace_back();
        main_.back().values = tensor;
        break;
      case STOKER_ROLE_ROW_SPLITS:
        main_[place[tensor.parent]].row_splits = numbers;
        break;
      case STOKER_ROLE_BYTE_SPLITS: {
        Main& parent = main_[place[tensor.parent]];
        parent.byte_splits = numbers;
        if (rows_ > 0)
          parent.strings_per_row = static_cast<std::uint64_t>(tensor.shape[0] - 1) / rows_;
        break;
      }
      case STOKER_ROLE_LENGTHS:
        main_[place[tensor.parent]].lengths = numbers;
        break;
      case STOKER_ROLE_ROW_IDS:
        row_ids_ = numbers;
        break;
      case STOKER_ROLE_VALID:
        break;
    }
  }
}

void BatchTensors::Strings(std::uint32_t i, std::uint32_t row, std::uint64_t* first,
                           std::uint64_t* last) const {
  const Main& main = main_[i];
  if (main.row_splits != nullptr) {
    *first = static_cast<std::uint64_t>(main.row_splits[row]);
    *last = static_cast<std::uint64_t>(main.row_splits[row + 1]);
  } else {
    *first = row * main.strings_per_row;
    *last = *first + main.strings_per_row;
  }
}

std::string_view BatchTensors::String(std::uint32_t i, std::uint64_t number) const {
  const Main& main = main_[i];
  const auto begin = static_cast<std::size_t>(main.byte_splits[number]);
  const auto end = static_cast<std::size_t>(main.byte_splits[number + 1]);
  return {static_cast<const char*>(main.values.data) + begin, end - begin};
}

RowValues BatchTensors::Row(std::uint32_t i, std::uint32_t row) const {
  const Main& main = main_[i];
  const auto* data = static_cast<const std::byte*>(main.values.data);
  const std::uint64_t item = main.values.dtype_bits / 8u;
  RowValues out;
  if (main.byte_splits != nullptr) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    Strings(i, row, &first, &last);
    const auto begin = static_cast<std::uint64_t>(main.byte_splits[first]);
    const auto end = static_cast<std::uint64_t>(main.byte_splits[last]);
    return {data + begin, end - begin, last - first};
  }
  if (main.row_splits != nullptr) {
    const auto begin = static_cast<std::uint64_t>(main.row_splits[row]);
    out.count = static_cast<std::uint64_t>(main.row_splits[row + 1]) - begin;
    out.data = data + begin * item;
    out.bytes = out.count * item;
    return out;
  }
  std::uint64_t per_row = 1;
  for (std::uint8_t d = 1; d < main.values.ndim; ++d) {
    per_row *= static_cast<std::uint64_t>(main.values.shape[d]);
  }
  out.data = data + row * per_row * item;
  out.count = main.lengths == nullptr ? per_row : static_cast<std::uint64_t>(main.lengths[row]);
  out.bytes = out.count * item;
  return out;
}

}  // namespace stoker::cli
