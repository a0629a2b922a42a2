// ImageGroups: the images of a spec that are cropped and flipped alike. Members share the op
// numbers that draws are keyed by, op by op, so a random op that moves pixels must stand at the
// same place in each.
//
// Ownership: borrows the spec. Thread-safety: one thread, while a spec is compiled.
// Errors: kInvalidArgument naming the tensors and the op.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/base/status.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::pipeline {

class ImageGroups {
 public:
  // `op_number` is the number of the tensor's first op among all ops of the spec.
  Status Join(const v1::Tensor& tensor, std::uint32_t op_number);

  // Of a group that a tensor has joined.
  std::uint32_t first_op(const std::string& group) const { return groups_.at(group).first_op; }
  std::uint32_t number(const std::string& group) const { return groups_.at(group).number; }

 private:
  struct Group {
    const v1::Tensor* first = nullptr;
    std::uint32_t first_op = 0;
    std::uint32_t number = 0;  // from 1
  };
  std::map<std::string, Group> groups_;
};

}  // namespace stoker::pipeline
