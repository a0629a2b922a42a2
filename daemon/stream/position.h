// Position: where an epoch's plan is resumed. The first global row of the next step.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace stoker::stream {

struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;

  auto operator<=>(const Position&) const = default;
  std::string Text() const {
    return "epoch " + std::to_string(epoch) + ", row " + std::to_string(row);
  }
};

}  // namespace stoker::stream
