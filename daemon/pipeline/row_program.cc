#include "daemon/pipeline/row_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "daemon/pipeline/dtype.h"
#include "daemon/pipeline/image_groups.h"
#include "daemon/pipeline/image_spec.h"

namespace stoker::pipeline {
namespace {

using Form = TensorProgram::Form;

Status Wrong(const std::string& name, const std::string& what) {
  return Status(Code::kInvalidArgument, "tensor \"" + name + "\": " + what);
}

example::Mode ToMode(v1::Parser parser) {
  switch (parser) {
    case v1::TF:
      return example::Mode::kTensorFlow;
    case v1::PROTOBUF:
      return example::Mode::kProtobuf;
    default:
      return example::Mode::kStrict;
  }
}

// The list a tensor reads: what the spec says, else what dtype, image and decode_raw imply.
Result<example::Kind> StoredKind(const v1::Tensor& tensor) {
  const bool bytes = tensor.has_image() || tensor.has_decode_raw() || tensor.dtype() == v1::BYTES;
  switch (tensor.kind()) {
    case v1::KIND_INT64:
    case v1::KIND_FLOAT:
      if (bytes) return Wrong(tensor.name(), "images, decode_raw and BYTES read a bytes_list");
      return tensor.kind() == v1::KIND_INT64 ? example::Kind::kInt64 : example::Kind::kFloat;
    case v1::KIND_BYTES:
      if (!bytes) {
        return Wrong(tensor.name(), "a bytes_list needs image, decode_raw or dtype: BYTES");
      }
      return example::Kind::kBytes;
    default:
      break;
  }
  if (bytes) return example::Kind::kBytes;
  if (tensor.dtype() == v1::INT64) return example::Kind::kInt64;
  if (tensor.dtype() == v1::FLOAT32) return example::Kind::kFloat;
  return Wrong(tensor.name(), "dtype " + v1::DType_Name(tensor.dtype()) +
                                  " does not say how the feature is stored; give `kind` "
                                  "(KIND_INT64 or KIND_FLOAT) and end with op { cast { dtype: " +
                                  v1::DType_Name(tensor.dtype()) + " } }");
}

Form FormOf(const v1::Tensor& tensor) {
  if (tensor.has_image()) return Form::kImage;
  if (tensor.has_decode_raw()) return Form::kRaw;
  if (tensor.dtype() == v1::BYTES) return Form::kBytes;
  if (tensor.has_ragged()) return Form::kRagged;
  if (tensor.has_padded()) {
    return tensor.padded().has_length() ? Form::kPaddedFixed : Form::kPaddedLongest;
  }
  return Form::kFixed;
}

void TakeDefault(const v1::Tensor& tensor, TensorProgram* out) {
  if (!tensor.has_default_value()) return;
  const auto& value = tensor.default_value();
  out->has_default = true;
  out->default_ints.assign(value.int64_value().begin(), value.int64_value().end());
  out->default_floats.assign(value.float_value().begin(), value.float_value().end());
  out->default_bytes.assign(value.bytes_value().begin(), value.bytes_value().end());
  if (out->default_ints.size() == 1)
    out->default_ints.resize(out->fixed_count, out->default_ints[0]);
  if (out->default_floats.size() == 1) {
    out->default_floats.resize(out->fixed_count, out->default_floats[0]);
  }
  if (out->default_bytes.size() == 1 && out->form == Form::kBytes) {
    out->default_bytes.resize(out->fixed_count, out->default_bytes[0]);
  }
}

Status CheckDefault(const TensorProgram& tensor, example::Kind kind) {
  if (!tensor.has_default) return Status();
  const std::size_t have = kind == example::Kind::kInt64   ? tensor.default_ints.size()
                           : kind == example::Kind::kFloat ? tensor.default_floats.size()
                                                           : tensor.default_bytes.size();
  const std::size_t all =
      tensor.default_ints.size() + tensor.default_floats.size() + tensor.default_bytes.size();
  if (have != tensor.fixed_count || all != have) {
    return Wrong(tensor.name, "default_value takes one value, or " +
                                  std::to_string(tensor.fixed_count) +
                                  ", in the stored kind (int64_value, float_value or bytes_value)");
  }
  return Status();
}

// One element of padding in the tensor's dtype.
std::vector<std::byte> PaddingElement(v1::DType dtype, double value) {
  std::vector<std::byte> element(ItemBytes(dtype));
  const auto put = [&element](auto item) { std::memcpy(element.data(), &item, sizeof(item)); };
  switch (dtype) {
    case v1::FLOAT32:
      put(static_cast<float>(value));
      break;
    case v1::FLOAT64:
      put(value);
      break;
    case v1::FLOAT16:
      put(ToFloat16(static_cast<float>(value)));
      break;
    case v1::BFLOAT16:
      put(ToBfloat16(static_cast<float>(value)));
      break;
    default: {
      const auto integer = static_cast<std::int64_t>(value);
      std::memcpy(element.data(), &integer, element.size());
    }
  }
  return element;
}

std::uint64_t Product(const std::vector<std::int64_t>& shape) {
  std::uint64_t product = 1;
  for (const auto side : shape) product *= static_cast<std::uint64_t>(side);
  return product;
}

v1::TensorInfo Info(const std::string& name, v1::DType dtype,
                    const std::vector<std::int64_t>& shape, std::uint64_t max_bytes,
                    const std::string& form) {
  v1::TensorInfo info;
  info.set_name(name);
  info.set_dtype(dtype);
  for (const auto side : shape) info.add_shape(side);
  info.set_max_bytes(max_bytes);
  info.set_form(form);
  return info;
}

// Adds tensors to the slot plan, in order.
class SlotLayout {
 public:
  SlotLayout(std::uint32_t batch, std::vector<shm::TensorSpec>* specs)
      : batch_(batch), specs_(*specs) {}

  int Add(const std::string& name, v1::DType dtype, shm::TensorRole role,
          std::vector<std::int64_t> shape, std::uint64_t max_bytes, int parent = -1) {
    shm::TensorSpec spec;
    spec.name = name;
    spec.dtype_code = ToDlType(dtype).code;
    spec.dtype_bits = ToDlType(dtype).bits;
    spec.role = role;
    spec.shape = std::move(shape);
    spec.max_bytes = max_bytes;
    spec.parent = parent;
    specs_.push_back(std::move(spec));
    return static_cast<int>(specs_.size()) - 1;
  }

  int Dense(const std::string& name, v1::DType dtype, const std::vector<std::int64_t>& row,
            shm::TensorRole role = shm::TensorRole::kDense, int parent = -1) {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(batch_)};
    shape.insert(shape.end(), row.begin(), row.end());
    const std::uint64_t bytes = batch_ * Product(row) * ItemBytes(dtype);
    return Add(name, dtype, role, std::move(shape), bytes, parent);
  }

  int Offsets(const std::string& name, shm::TensorRole role, std::uint64_t most, int parent) {
    return Add(name, v1::INT64, role, {static_cast<std::int64_t>(most + 1)}, (most + 1) * 8,
               parent);
  }

 private:
  const std::uint32_t batch_;
  std::vector<shm::TensorSpec>& specs_;
};

// The bound of a variable tensor from the data: values of `kind` that one record can hold.
std::uint64_t MostValues(example::Kind kind, std::uint64_t longest_record) {
  return kind == example::Kind::kFloat ? longest_record / 4 : longest_record;
}

}  // namespace

Result<std::shared_ptr<const RowProgram>> RowProgram::Compile(const v1::StreamSpec& spec,
                                                              const DataBounds& bounds) {
  auto program = std::make_shared<RowProgram>();
  const auto& source = spec.source(0);
  program->batch_ = spec.batch().size();
  program->bad_row_ = source.bad_row();
  program->on_bad_record_ = source.on_bad_record();
  program->parser_mode_ = ToMode(source.parser());

  // Tensors of one feature, kind and form share a place in the feature plan.
  std::map<std::tuple<std::string, example::Kind, bool, bool, bool>, std::uint32_t> known;
  std::vector<shm::TensorSpec> slots;
  SlotLayout layout(program->batch_, &slots);
  const std::uint64_t batch = program->batch_;
  std::uint32_t op_number = 0;
  ImageGroups groups;

  for (const v1::Tensor& tensor : spec.tensor()) {
    TensorProgram out;
    out.name = tensor.name();
    out.form = FormOf(tensor);
    out.dtype = tensor.dtype();
    const auto kind = StoredKind(tensor);
    if (!kind.ok()) return kind.status();
    std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    out.fixed_count = Product(shape);
    const bool variable = out.form == Form::kRagged || out.form == Form::kPaddedFixed ||
                          out.form == Form::kPaddedLongest ||
                          (out.form == Form::kBytes && tensor.has_ragged());
    if (out.form == Form::kImage || out.form == Form::kRaw) out.fixed_count = 1;
    out.list_count = out.fixed_count;
    TakeDefault(tensor, &out);
    STOKER_TRY(CheckDefault(out, *kind));

    const std::string feature = tensor.feature().empty() ? tensor.name() : tensor.feature();
    const bool optional = out.has_default || tensor.allow_missing();
    const auto key = std::make_tuple(feature, *kind, variable, optional, tensor.feature_list());
    if (const auto it = known.find(key); it != known.end()) {
      out.feature = it->second;
    } else {
      out.feature = static_cast<std::uint32_t>(program->requests_.size());
      known.emplace(key, out.feature);
      program->requests_.push_back(
          {feature, *kind, variable, optional, tensor.feature_list(), std::uint32_t{1}});
    }

    out.stored = *kind == example::Kind::kInt64 ? v1::INT64 : v1::FLOAT32;
    switch (out.form) {
      case Form::kImage: {
        std::uint32_t first_op = op_number;
        if (!tensor.group().empty()) {
          STOKER_TRY(groups.Join(tensor, op_number));
          first_op = groups.first_op(tensor.group());
        }
        auto image_spec = ToImageSpec(tensor, static_cast<std::uint16_t>(first_op));
        if (!image_spec.ok()) return image_spec.status();
        image_spec->group = tensor.group().empty() ? 0 : groups.number(tensor.group());
        auto compiled = image::ImageProgram::Compile(*image_spec);
        if (!compiled.ok()) {
          return Status(compiled.status()).Annotate("tensor \"" + tensor.name() + "\"");
        }
        out.image = std::move(*compiled);
        out.row_bytes = out.image->row_bytes();
        const std::int64_t h = out.image->height();
        const std::int64_t w = out.image->width();
        const std::int64_t c = out.image->channels();
        const bool planes = tensor.layout() == v1::NCHW;
        out.slot_values = layout.Dense(
            out.name, out.dtype,
            planes ? std::vector<std::int64_t>{c, h, w} : std::vector<std::int64_t>{h, w, c});
        break;
      }
      case Form::kRaw:
      case Form::kFixed: {
        if (out.form == Form::kRaw) {
          out.stored = tensor.decode_raw().dtype();
          out.swap_bytes = tensor.decode_raw().byte_order() == v1::DecodeRaw::BIG;
          out.fixed_count = Product(shape);
        }
        auto values = ValueProgram::Compile(tensor, out.stored, shape, false);
        if (!values.ok()) return values.status();
        out.values = std::move(*values);
        out.row_bytes = Product(out.values.shape()) * ItemBytes(out.dtype);
        out.slot_values = layout.Dense(out.name, out.dtype, out.values.shape());
        break;
      }
      case Form::kBytes: {
        out.ragged = tensor.has_ragged();
        const bool bounded = out.ragged && tensor.ragged().has_max_values();
        out.max_values = bounded ? tensor.ragged().max_values() : batch * bounds.longest_record;
        const std::uint64_t strings =
            out.ragged ? batch * std::max<std::uint64_t>(1, bounds.longest_record / 2)
                       : batch * out.fixed_count;
        out.slot_values = layout.Add(out.name, v1::BYTES, shm::TensorRole::kValues,
                                     {static_cast<std::int64_t>(out.max_values)}, out.max_values);
        out.slot_byte_splits = layout.Offsets(
            out.name + "/byte_splits", shm::TensorRole::kByteSplits, strings, out.slot_values);
        if (out.ragged) {
          out.slot_row_splits = layout.Offsets(out.name + "/row_splits",
                                               shm::TensorRole::kRowSplits, batch, out.slot_values);
        }
        break;
      }
      case Form::kRagged:
      case Form::kPaddedFixed:
      case Form::kPaddedLongest: {
        auto values = ValueProgram::Compile(tensor, out.stored, {}, true);
        if (!values.ok()) return values.status();
        out.values = std::move(*values);
        const std::uint64_t item = ItemBytes(out.dtype);
        const std::uint64_t row_bound = MostValues(*kind, bounds.longest_record);
        if (out.form == Form::kRagged) {
          out.max_values =
              tensor.ragged().has_max_values() ? tensor.ragged().max_values() : batch * row_bound;
          out.slot_values =
              layout.Add(out.name, out.dtype, shm::TensorRole::kValues,
                         {static_cast<std::int64_t>(out.max_values)}, out.max_values * item);
          out.slot_row_splits = layout.Offsets(out.name + "/row_splits",
                                               shm::TensorRole::kRowSplits, batch, out.slot_values);
          break;
        }
        out.truncate = tensor.padded().truncate();
        out.padding = PaddingElement(out.dtype, tensor.padded().value());
        out.padded_length = tensor.padded().length();
        out.max_values =
            tensor.padded().has_max_values() ? tensor.padded().max_values() : row_bound;
        const std::uint64_t length =
            out.form == Form::kPaddedFixed ? out.padded_length : out.max_values;
        out.row_bytes = out.padded_length * item;
        out.slot_values = layout.Dense(out.name, out.dtype, {static_cast<std::int64_t>(length)});
        out.slot_lengths = layout.Dense(out.name + "/lengths", v1::INT64, {},
                                        shm::TensorRole::kLengths, out.slot_values);
        break;
      }
    }
    program->two_phase_ = program->two_phase_ || out.counted();
    program->sequences_ = program->sequences_ || tensor.feature_list();
    op_number += static_cast<std::uint32_t>(tensor.op_size());
    program->tensors_.push_back(std::move(out));
  }
  program->row_ids_ = layout.Dense("row_ids", v1::INT64, {}, shm::TensorRole::kRowIds);
  if (source.bad_row() == v1::MASK || spec.batch().remainder() == v1::Batch::PAD) {
    program->valid_ = layout.Dense("valid", v1::BOOL, {}, shm::TensorRole::kValid);
  }

  auto features = example::FeaturePlan::Make(program->requests_);
  if (!features.ok()) return features.status();
  program->features_ = std::make_unique<example::FeaturePlan>(std::move(*features));
  auto slot_plan = shm::SlotPlan::Make(slots, program->batch_);
  if (!slot_plan) {
    return Status(Code::kInvalidArgument,
                  "the batch does not fit in a slot: too many tensors, or more than 2^63 bytes; "
                  "bound variable-length tensors with max_values or make the batch smaller");
  }
  program->slot_plan_ = std::move(*slot_plan);
  return std::shared_ptr<const RowProgram>(std::move(program));
}

std::vector<v1::TensorInfo> RowProgram::Describe() const {
  std::vector<v1::TensorInfo> infos;
  const auto batch = static_cast<std::int64_t>(batch_);
  const auto offsets = [&](const std::string& name, std::int64_t n, const char* form) {
    infos.push_back(
        Info(name, v1::INT64, {n}, n < 0 ? 0 : static_cast<std::uint64_t>(n) * 8, form));
  };
  for (const TensorProgram& tensor : tensors_) {
    switch (tensor.form) {
      case Form::kFixed:
      case Form::kRaw:
      case Form::kImage: {
        std::vector<std::int64_t> shape = {batch};
        const auto& row = slot_plan_.tensor(static_cast<std::uint32_t>(tensor.slot_values)).shape;
        shape.insert(shape.end(), row.begin() + 1, row.end());
        infos.push_back(Info(tensor.name, tensor.dtype, shape,
                             static_cast<std::uint64_t>(batch) * tensor.row_bytes, "dense"));
        break;
      }
      case Form::kBytes:
        infos.push_back(Info(tensor.name, v1::BYTES, {-1}, tensor.max_values, "ragged values"));
        offsets(tensor.name + "/byte_splits",
                tensor.ragged ? -1 : batch * static_cast<std::int64_t>(tensor.fixed_count) + 1,
                "byte splits");
        if (tensor.ragged) offsets(tensor.name + "/row_splits", batch + 1, "row splits");
        break;
      case Form::kRagged:
        infos.push_back(Info(tensor.name, tensor.dtype, {-1},
                             tensor.max_values * ItemBytes(tensor.dtype), "ragged values"));
        offsets(tensor.name + "/row_splits", batch + 1, "row splits");
        break;
      case Form::kPaddedFixed:
      case Form::kPaddedLongest: {
        const bool fixed = tensor.form == Form::kPaddedFixed;
        const auto side = fixed ? static_cast<std::int64_t>(tensor.padded_length) : -1;
        const std::uint64_t most = fixed ? tensor.padded_length : tensor.max_values;
        infos.push_back(Info(tensor.name, tensor.dtype, {batch, side},
                             static_cast<std::uint64_t>(batch) * most * ItemBytes(tensor.dtype),
                             "dense"));
        offsets(tensor.name + "/lengths", batch, "lengths");
        break;
      }
    }
  }
  offsets("row_ids", batch, "row ids");
  if (valid_ >= 0) {
    infos.push_back(Info("valid", v1::BOOL, {batch}, static_cast<std::uint64_t>(batch), "valid"));
  }
  return infos;
}

}  // namespace stoker::pipeline
