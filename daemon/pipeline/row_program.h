// RowProgram: a StreamSpec compiled once into what workers run for every row.
//
// For each tensor: which feature it reads, how the stored values become the tensor's, and where
// they go in a slot. Slots hold the spec's tensors in its order, each followed by its companions
// (`NAME/row_splits`, `NAME/byte_splits`, `NAME/lengths`), then `row_ids` and, where rows can be
// filler or masked, `valid`.
//
// Thread-safety: immutable. Errors of Compile(): kInvalidArgument with the tensor and the remedy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/example/example_parser.h"
#include "daemon/image/image_program.h"
#include "daemon/pipeline/value_program.h"
#include "shm/batch_writer.h"
#include "stoker/v1/control.pb.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::pipeline {

// What the data decides: bounds of variable-length tensors.
struct DataBounds {
  std::uint64_t longest_record = 0;  // payload bytes
};

// One tensor of the spec.
struct TensorProgram {
  enum class Form {
    kFixed,          // numbers of a fixed shape
    kImage,          // one image
    kRaw,            // decode_raw
    kBytes,          // byte strings, `fixed_count` a row or, with row_splits, any number
    kRagged,         // numbers, any number a row
    kPaddedFixed,    // numbers, padded to `padded_length`
    kPaddedLongest,  // numbers, padded to the longest of the batch
  };

  std::string name;
  Form form = Form::kFixed;
  std::uint32_t feature = 0;  // index in the feature plan
  v1::DType dtype = v1::FLOAT32;
  v1::DType stored = v1::FLOAT32;  // dtype of the values as they come from the record
  ValueProgram values;
  std::shared_ptr<const image::ImageProgram> image;
  bool ragged = false;      // kBytes: the number of strings varies
  bool swap_bytes = false;  // kRaw: stored big-endian
  bool truncate = false;
  std::uint64_t fixed_count = 1;    // values of a row before the ops
  std::uint64_t list_count = 1;     // values its feature must hold (images and decode_raw: 1)
  std::uint64_t row_bytes = 0;      // of a finished row, fixed forms
  std::uint64_t padded_length = 0;  // kPaddedFixed
  std::uint64_t max_values = 0;     // of a batch (kBytes: bytes); kPaddedLongest: of a row
  std::vector<std::byte> padding;   // one element
  bool has_default = false;
  std::vector<std::int64_t> default_ints;
  std::vector<float> default_floats;
  std::vector<std::string> default_bytes;

  // Places in the slot plan; -1 where there is none.
  int slot_values = -1;
  int slot_row_splits = -1;
  int slot_byte_splits = -1;
  int slot_lengths = -1;

  // Its values are placed only when the whole batch has been counted.
  bool counted() const {
    return form == Form::kBytes || form == Form::kRagged || form == Form::kPaddedLongest;
  }
};

class RowProgram {
 public:
  // REQUIRES: `spec` passed FillDefaults() and ValidateSpec().
  static Result<std::shared_ptr<const RowProgram>> Compile(const v1::StreamSpec& spec,
                                                           const DataBounds& bounds);

  const std::vector<TensorProgram>& tensors() const { return tensors_; }
  const example::FeaturePlan& features() const { return *features_; }
  const example::FeatureRequest& request(std::uint32_t feature) const { return requests_[feature]; }
  example::Mode parser_mode() const { return parser_mode_; }
  bool sequences() const { return sequences_; }  // records are SequenceExamples
  const shm::SlotPlan& slot_plan() const { return slot_plan_; }
  int row_ids() const { return row_ids_; }
  int valid() const { return valid_; }  // -1 where the batch has none
  bool two_phase() const { return two_phase_; }
  std::uint32_t batch() const { return batch_; }
  v1::BadRow bad_row() const { return bad_row_; }
  v1::OnBadRecord on_bad_record() const { return on_bad_record_; }

  // What the tensors of a full batch look like, for Explain.
  std::vector<v1::TensorInfo> Describe() const;

 private:
  std::vector<TensorProgram> tensors_;
  std::vector<example::FeatureRequest> requests_;
  std::unique_ptr<example::FeaturePlan> features_;
  example::Mode parser_mode_ = example::Mode::kStrict;
  shm::SlotPlan slot_plan_;
  int row_ids_ = -1;
  int valid_ = -1;
  bool two_phase_ = false;
  bool sequences_ = false;
  std::uint32_t batch_ = 0;
  v1::BadRow bad_row_ = v1::DROP_ROW;
  v1::OnBadRecord on_bad_record_ = v1::FAIL;
};

}  // namespace stoker::pipeline
