#include "daemon/pipeline/value_program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "daemon/pipeline/dtype.h"

namespace stoker::pipeline {
namespace {

using Entry = ValueProgram::Entry;

Entry EntryOf(v1::DType dtype) {
  if (dtype == v1::FLOAT64) return Entry::kFloat64;
  return IsFloating(dtype) ? Entry::kFloat32 : Entry::kInt64;
}

template <typename To, typename From>
To Saturate(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    if (value != value) return To{0};
    // Both limits are compared as floating point, where the upper one may round up to 2^n.
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) {
      return std::numeric_limits<To>::min();
    }
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    return static_cast<To>(value);
  } else if constexpr (std::is_same_v<To, std::uint64_t>) {
    return static_cast<To>(value);  // uint64 travels in an int64's bits
  } else {
    return static_cast<To>(
        std::clamp<From>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  }
}

template <typename From>
std::int64_t ToIntegerOf(v1::DType dtype, From value) {
  switch (dtype) {
    case v1::UINT8:
      return Saturate<std::uint8_t>(value);
    case v1::INT8:
      return Saturate<std::int8_t>(value);
    case v1::UINT16:
      return Saturate<std::uint16_t>(value);
    case v1::INT16:
      return Saturate<std::int16_t>(value);
    case v1::UINT32:
      return Saturate<std::uint32_t>(value);
    case v1::INT32:
      return Saturate<std::int32_t>(value);
    case v1::BOOL:
      return value != From{0} ? 1 : 0;
    default:
      return Saturate<std::int64_t>(value);
  }
}

float RoundTo(v1::DType dtype, float value) {
  if (dtype == v1::FLOAT16) return FromFloat16(ToFloat16(value));
  if (dtype == v1::BFLOAT16) return FromBfloat16(ToBfloat16(value));
  return value;
}

// Brings the scratch from what it holds to what `dtype` is carried as.
void Convert(v1::DType dtype, Entry from, ValueScratch* s) {
  const Entry to = EntryOf(dtype);
  const auto each = [&](const auto& source) {
    const std::size_t n = source.size();
    switch (to) {
      case Entry::kInt64:
        s->ints.resize(n);
        for (std::size_t i = 0; i < n; ++i) s->ints[i] = ToIntegerOf(dtype, source[i]);
        break;
      case Entry::kFloat32:
        s->floats.resize(n);
        for (std::size_t i = 0; i < n; ++i) {
          s->floats[i] = RoundTo(dtype, static_cast<float>(source[i]));
        }
        break;
      case Entry::kFloat64:
        s->doubles.resize(n);
        for (std::size_t i = 0; i < n; ++i) s->doubles[i] = static_cast<double>(source[i]);
        break;
    }
  };
  switch (from) {
    case Entry::kInt64:
      return each(s->ints);
    case Entry::kFloat32:
      return each(s->floats);
    case Entry::kFloat64:
      return each(s->doubles);
  }
}

template <typename T, typename Source>
void Store(const std::vector<Source>& values, void* out) {
  auto* bytes = static_cast<std::byte*>(out);
  for (const Source value : values) {
    const T item = static_cast<T>(value);
    std::memcpy(bytes, &item, sizeof(item));
    bytes += sizeof(item);
  }
}

void Write(v1::DType dtype, const ValueScratch& s, void* out) {
  switch (dtype) {
    case v1::BOOL:
    case v1::UINT8:
      return Store<std::uint8_t>(s.ints, out);
    case v1::INT8:
      return Store<std::int8_t>(s.ints, out);
    case v1::UINT16:
      return Store<std::uint16_t>(s.ints, out);
    case v1::INT16:
      return Store<std::int16_t>(s.ints, out);
    case v1::UINT32:
      return Store<std::uint32_t>(s.ints, out);
    case v1::INT32:
      return Store<std::int32_t>(s.ints, out);
    case v1::UINT64:
    case v1::INT64:
      return Store<std::int64_t>(s.ints, out);
    case v1::FLOAT32:
      return Store<float>(s.floats, out);
    case v1::FLOAT64:
      return Store<double>(s.doubles, out);
    default:
      break;
  }
  auto* bytes = static_cast<std::byte*>(out);
  for (const float value : s.floats) {
    const std::uint16_t item = dtype == v1::FLOAT16 ? ToFloat16(value) : ToBfloat16(value);
    std::memcpy(bytes, &item, sizeof(item));
    bytes += sizeof(item);
  }
}

Status Wrong(const std::string& where, const std::string& what) {
  return Status(Code::kInvalidArgument, where + ": " + what);
}

std::int64_t Product(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const auto side : shape) product *= side;
  return product;
}

Result<std::vector<std::int64_t>> Reshaped(const v1::Reshape& reshape, std::int64_t count,
                                           const std::string& where) {
  std::vector<std::int64_t> shape(reshape.shape().begin(), reshape.shape().end());
  std::int64_t known = 1;
  int free_side = -1;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    const std::int64_t side = shape[static_cast<std::size_t>(i)];
    if (side == -1 && free_side < 0) {
      free_side = i;
    } else if (side < 0) {
      return Wrong(where, "a side is 0 or more, and one side may be -1");
    } else {
      known *= side;
    }
  }
  if (free_side >= 0) {
    if (known == 0 || count % known != 0) {
      return Wrong(where, std::to_string(count) +
                              " values do not fill the other sides, whose "
                              "product is " +
                              std::to_string(known));
    }
    shape[static_cast<std::size_t>(free_side)] = count / known;
  } else if (known != count) {
    return Wrong(where, "the shape holds " + std::to_string(known) + " values, the tensor " +
                            std::to_string(count));
  }
  return shape;
}

}  // namespace

Result<ValueProgram> ValueProgram::Compile(const v1::Tensor& tensor, v1::DType stored,
                                           std::vector<std::int64_t> shape, bool variable) {
  ValueProgram program;
  program.shape_ = std::move(shape);
  program.entry_ = EntryOf(stored);
  program.dtype_ = tensor.dtype();
  v1::DType current = stored;
  for (int i = 0; i < tensor.op_size(); ++i) {
    const std::string where = "tensor \"" + tensor.name() + "\": op[" + std::to_string(i) + "]";
    STOKER_TRY(program.AddOp(tensor.op(i), where, &current, variable));
  }
  if (current != tensor.dtype()) {
    return Wrong("tensor \"" + tensor.name() + "\"",
                 "dtype is " + v1::DType_Name(tensor.dtype()) + " but its values are " +
                     v1::DType_Name(current) +
                     "; end with op { cast { dtype: " + v1::DType_Name(tensor.dtype()) + " } }");
  }
  program.identity_ = program.steps_.empty();
  return program;
}

Status ValueProgram::AddOp(const v1::Op& op, const std::string& where, v1::DType* current,
                           bool variable) {
  Step step;
  switch (op.op_case()) {
    case v1::Op::kCast:
      if (op.cast().dtype() == v1::BYTES || op.cast().dtype() == v1::DTYPE_UNSPECIFIED) {
        return Wrong(where, "cast needs the dtype of a number");
      }
      step.kind = Step::Kind::kConvert;
      step.dtype = op.cast().dtype();
      *current = step.dtype;
      break;
    case v1::Op::kScale:
      step.kind = Step::Kind::kScale;
      step.factor = op.scale().has_factor() ? op.scale().factor() : 1.0f;
      step.offset = op.scale().offset();
      *current = v1::FLOAT32;
      break;
    case v1::Op::kNormalize: {
      step.kind = Step::Kind::kNormalize;
      step.mean.assign(op.normalize().mean().begin(), op.normalize().mean().end());
      step.std.assign(op.normalize().std().begin(), op.normalize().std().end());
      if (step.mean.empty()) step.mean = {0.0f};
      if (step.std.empty()) step.std = {1.0f};
      const std::int64_t last = shape_.empty() ? 1 : shape_.back();
      for (const auto& list : {step.mean, step.std}) {
        if (list.size() != 1 && (variable || static_cast<std::int64_t>(list.size()) != last)) {
          return Wrong(
              where, "mean and std take one value" + (variable ? std::string()
                                                               : ", or as many as the last side (" +
                                                                     std::to_string(last) + ")"));
        }
      }
      if (std::find(step.std.begin(), step.std.end(), 0.0f) != step.std.end()) {
        return Wrong(where, "std must not be 0");
      }
      *current = v1::FLOAT32;
      break;
    }
    case v1::Op::kOneHot: {
      const auto& one_hot = op.one_hot();
      if (variable) return Wrong(where, "one_hot needs a fixed shape");
      if (one_hot.depth() == 0) return Wrong(where, "one_hot.depth is 1 or more");
      if (IsFloating(*current)) return Wrong(where, "one_hot needs integers; cast first");
      if (expansion_ != 1) return Wrong(where, "one_hot can stand once");
      step.kind = Step::Kind::kOneHot;
      step.depth = one_hot.depth();
      const float on = one_hot.has_on() ? one_hot.on() : 1.0f;
      const float share = one_hot.smoothing() / static_cast<float>(step.depth);
      step.on = on * (1.0f - one_hot.smoothing()) + share;
      step.off = one_hot.off() + share;
      shape_.push_back(step.depth);
      expansion_ = step.depth;
      *current = v1::FLOAT32;
      break;
    }
    case v1::Op::kReshape: {
      if (variable) return Wrong(where, "reshape needs a fixed shape");
      auto shape = Reshaped(op.reshape(), Product(shape_), where);
      if (!shape.ok()) return shape.status();
      shape_ = std::move(*shape);
      return Status();
    }
    case v1::Op::OP_NOT_SET:
      return Wrong(where, "names no operation");
    default:
      return Wrong(where, "is an operation on images; this tensor has no `image`");
  }
  steps_.push_back(std::move(step));
  return Status();
}

FaultClass ValueProgram::Run(ValueScratch* s, void* out, std::string* detail) const {
  Entry held = entry_;
  for (const Step& step : steps_) {
    const v1::DType wanted = step.kind == Step::Kind::kConvert  ? step.dtype
                             : step.kind == Step::Kind::kOneHot ? v1::INT64
                                                                : v1::FLOAT32;
    if (step.kind == Step::Kind::kConvert || EntryOf(wanted) != held) Convert(wanted, held, s);
    held = EntryOf(wanted);
    switch (step.kind) {
      case Step::Kind::kConvert:
        break;
      case Step::Kind::kScale:
        for (float& value : s->floats) value = value * step.factor + step.offset;
        break;
      case Step::Kind::kNormalize:
        for (std::size_t i = 0; i < s->floats.size(); ++i) {
          const float mean = step.mean[i % step.mean.size()];
          s->floats[i] = (s->floats[i] - mean) / step.std[i % step.std.size()];
        }
        break;
      case Step::Kind::kOneHot:
        s->floats.assign(s->ints.size() * step.depth, step.off);
        for (std::size_t i = 0; i < s->ints.size(); ++i) {
          const std::int64_t value = s->ints[i];
          if (value < 0 || value >= static_cast<std::int64_t>(step.depth)) {
            *detail =
                "one_hot of depth " + std::to_string(step.depth) + " got " + std::to_string(value);
            return FaultClass::kFeatureCount;
          }
          s->floats[i * step.depth + static_cast<std::size_t>(value)] = step.on;
        }
        held = Entry::kFloat32;
        break;
    }
  }
  Write(dtype_, *s, out);
  return FaultClass::kNone;
}

}  // namespace stoker::pipeline
