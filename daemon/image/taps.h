// Taps: which source places make a place of a resized axis, and with which weights.
//
// Each place has the same number of taps; those behind its kernel weigh nothing. Nothing outside
// the source is read. The kernels are those of TensorFlow 2 (profile TF) and of torchvision's
// tensors (profile TORCHVISION); docs/design/images.md lists them.
//
// Thread-safety: plain values and functions; sums run in a fixed order, so the same bits on every
// CPU.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::image {

enum class Profile : std::uint8_t { kTorchvision, kTf };
enum class Method : std::uint8_t { kBilinear, kNearest, kNearestFloor, kBicubic, kLanczos3, kArea };

struct Kernel {
  Method method = Method::kBilinear;
  bool antialias = true;
  Profile profile = Profile::kTorchvision;
};

struct Taps {
  std::uint32_t most = 1;            // taps of a place
  std::vector<std::uint32_t> first;  // by place; first + most lies inside the source
  std::vector<float> weights;        // `most` for each place

  std::uint32_t size() const { return static_cast<std::uint32_t>(first.size()); }
  // The source places that any tap reads: [begin, end).
  std::uint32_t begin() const;
  std::uint32_t end() const;
  void Shift(std::uint32_t begin);  // places count from `begin` from now on
  void Reverse();                   // the last place first
};

// Taps of the places `from` to `from + count` of an axis of `in` places resized to `out`.
// REQUIRES: in, out and count are not 0 and from + count is at most out.
void MakeTaps(const Kernel& kernel, std::uint32_t in, std::uint32_t out, std::uint32_t from,
              std::uint32_t count, Taps* taps);

// Every place is itself.
void MakeIdentity(std::uint32_t count, Taps* taps);

}  // namespace stoker::image
