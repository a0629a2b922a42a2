#include "daemon/example/layout_memo.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/example/varint_count.h"
#include "daemon/example/wire.h"

namespace stoker::example {

bool LayoutMemo::Match(std::span<const std::byte> record, std::span<FeatureSpan> out) {
  Layout& layout = layouts_[record.size() % kLayouts];
  if (layout.length != record.size() || record.empty()) return false;
  std::uint64_t differs = 0;
  for (const Word& word : layout.words) {
    std::uint64_t bytes;
    std::memcpy(&bytes, record.data() + word.offset, sizeof(bytes));
    differs |= (bytes & word.mask) ^ word.expected;
  }
  if (differs != 0) return false;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    const Place& place = layout.places[i];
    out[i].kind = place.kind;
    out[i].packed = place.packed;
    out[i].count = place.count;
    out[i].bytes = {record.data() + place.offset, place.bytes};
    if (place.varints && CountVarints(out[i].bytes) != place.count) return false;
  }
  ++layout.hits;
  return true;
}

void LayoutMemo::Learn(std::span<const std::byte> record, std::span<const FeatureSpan> spans) {
  if (pause_ > 0) {
    --pause_;
    return;
  }
  if (record.size() < sizeof(std::uint64_t) || record.size() > kLongest) return;
  Layout& layout = layouts_[record.size() % kLayouts];
  // A length that comes once is not worth it.
  if (std::exchange(seen_[record.size() % kLayouts], record.size()) != record.size()) return;
  if (layout.length != 0 && layout.hits < 2) {
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  } else {
    next_pause_ = 1;
  }

  layout.length = record.size();
  layout.hits = 0;
  layout.places.clear();
  value_.assign(record.size(), 0);
  for (const FeatureSpan& span : spans) {
    const auto offset =
        span.bytes.empty() ? 0 : static_cast<std::uint32_t>(span.bytes.data() - record.data());
    layout.places.push_back({span.kind, span.packed, span.packed && span.kind == Kind::kInt64,
                             span.count, offset, static_cast<std::uint32_t>(span.bytes.size())});
    MarkValues(record, span);
  }
  layout.words.clear();
  for (std::size_t at = 0; at < record.size(); at += sizeof(std::uint64_t)) {
    // The last word reaches back rather than past the end.
    const std::size_t offset = std::min(at, record.size() - sizeof(std::uint64_t));
    Word word{static_cast<std::uint32_t>(offset), 0, 0};
    for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i) {
      if (value_[offset + i] == 0) word.mask |= std::uint64_t{0xff} << (8 * i);
    }
    std::memcpy(&word.expected, record.data() + offset, sizeof(word.expected));
    word.expected &= word.mask;
    if (word.mask != 0) layout.words.push_back(word);
  }
}

// Unpacked numbers count as structure: only old writers have them.
void LayoutMemo::MarkValues(std::span<const std::byte> record, const FeatureSpan& span) {
  const auto mark = [&](std::span<const std::byte> value) {
    if (value.empty()) return;
    const auto begin = value_.begin() + (value.data() - record.data());
    std::fill(begin, begin + static_cast<std::ptrdiff_t>(value.size()), std::uint8_t{1});
  };
  if (span.kind == Kind::kBytes) {
    Cursor cursor(span.bytes);
    std::span<const std::byte> value;
    while (cursor.Skip(1) && cursor.Bytes(&value)) mark(value);
  } else if (span.packed) {
    mark(span.bytes);
  }
}

}  // namespace stoker::example
