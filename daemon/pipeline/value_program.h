// ValueProgram: the operations of a tensor of numbers, compiled once and run for each row.
//
// Values enter as int64, float32 or float64, pass the ops in the spec's order, and are written
// once as the tensor's dtype at their final address. A tensor without ops whose stored type is its
// dtype needs no program: is_identity() is true and the caller copies straight from the record.
//
// Formulas: scale is value * factor + offset, normalize (value - mean) / std, both in float32.
// Floats become integers by truncation toward zero and saturation, NaN becomes 0.
//
// Thread-safety: immutable; a Scratch belongs to one thread. Errors: Compile() answers
// kInvalidArgument naming the op; Run() a fault where a row's value has no place in a one-hot.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/fault.h"
#include "daemon/base/status.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::pipeline {

// A row's values between two ops. One of the vectors is current.
struct ValueScratch {
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<double> doubles;
};

class ValueProgram {
 public:
  // How values enter.
  enum class Entry { kInt64, kFloat32, kFloat64 };

  // `shape` is that of one row before the ops; empty with `variable` for a tensor of any length,
  // on which only element-wise ops are allowed. `stored` is the dtype the values have.
  static Result<ValueProgram> Compile(const v1::Tensor& tensor, v1::DType stored,
                                      std::vector<std::int64_t> shape, bool variable);

  bool is_identity() const { return identity_; }
  Entry entry() const { return entry_; }
  // Of one row after the ops.
  const std::vector<std::int64_t>& shape() const { return shape_; }
  // Values written for each value that enters (the depth of a one-hot, else 1).
  std::uint64_t expansion() const { return expansion_; }

  // Runs over the vector of *scratch that entry() names and writes the results at `out`.
  FaultClass Run(ValueScratch* scratch, void* out, std::string* detail) const;

 private:
  struct Step {
    enum class Kind { kConvert, kScale, kNormalize, kOneHot } kind;
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    float factor = 1;
    float offset = 0;
    std::vector<float> mean;
    std::vector<float> std;
    std::uint32_t depth = 0;
    float on = 1;
    float off = 0;
  };

  Status AddOp(const v1::Op& op, const std::string& where, v1::DType* current, bool variable);

  bool identity_ = true;
  Entry entry_ = Entry::kInt64;
  v1::DType dtype_ = v1::DTYPE_UNSPECIFIED;
  std::vector<std::int64_t> shape_;
  std::uint64_t expansion_ = 1;
  std::vector<Step> steps_;
};

}  // namespace stoker::pipeline
