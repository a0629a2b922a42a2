#include "daemon/pipeline/image_groups.h"

#include <algorithm>

namespace stoker::pipeline {
namespace {

// Random ops that move pixels: members of a group must draw them alike.
bool MovesAtRandom(const v1::Op& op) {
  switch (op.op_case()) {
    case v1::Op::kRandomCrop:
    case v1::Op::kRandomResizedCrop:
    case v1::Op::kRandomFlipHorizontal:
    case v1::Op::kRandomFlipVertical:
      return true;
    default:
      return false;
  }
}

bool Moves(const v1::Op& op) {
  return MovesAtRandom(op) || op.has_resize() || op.has_resize_shorter() || op.has_center_crop();
}

// What an op that moves pixels says of where they go: all but how they are resampled.
std::string Geometry(v1::Op op) {
  const auto clear = [](auto* message) {
    message->clear_method();
    message->clear_antialias();
  };
  if (op.has_resize()) clear(op.mutable_resize());
  if (op.has_resize_shorter()) clear(op.mutable_resize_shorter());
  if (op.has_random_resized_crop()) clear(op.mutable_random_resized_crop());
  return op.SerializeAsString();
}

// Ops up to the last that moves pixels at random; what comes later may differ.
int DrawnOps(const v1::Tensor& tensor) {
  int n = tensor.op_size();
  while (n > 0 && !MovesAtRandom(tensor.op(n - 1))) --n;
  return n;
}

}  // namespace

Status ImageGroups::Join(const v1::Tensor& tensor, std::uint32_t op_number) {
  Group& group = groups_[tensor.group()];
  if (group.first == nullptr) {
    group = {&tensor, op_number, static_cast<std::uint32_t>(groups_.size())};
    return Status();
  }
  const v1::Tensor& first = *group.first;
  for (int i = 0; i < std::max(DrawnOps(first), DrawnOps(tensor)); ++i) {
    const v1::Op none;
    const v1::Op& theirs = i < first.op_size() ? first.op(i) : none;
    const v1::Op& ours = i < tensor.op_size() ? tensor.op(i) : none;
    if (!Moves(theirs) && !Moves(ours)) continue;
    if (Geometry(theirs) == Geometry(ours)) continue;
    return Status(Code::kInvalidArgument,
                  "tensor \"" + tensor.name() + "\": op[" + std::to_string(i) + "] and that of \"" +
                      first.name() + "\" are not the same; images of one group crop and flip at " +
                      "the same places of their lists, with the same values");
  }
  return Status();
}

}  // namespace stoker::pipeline
