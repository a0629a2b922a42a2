// Walks a map entry of Features as C++ protobuf reads it: fields in any number and order, unknown
// ones skipped, values merged. The slow road of the PROTOBUF mode; no canonical record takes it.
//
// Since protobuf merges, the values of one feature may lie in several places. They are not
// gathered: a FeatureSpan that is `merged` holds the whole entry, and who wants the values walks it
// again.
//
// Errors: false where protobuf refuses the bytes. No allocation; nothing is read past the input.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/example/feature_span.h"
#include "daemon/example/varint_count.h"
#include "daemon/example/wire.h"

namespace stoker::example {

// A tag as protobuf reads it: five bytes at most, and what is above 32 bits is lost.
inline bool ProtobufTag(Cursor* cursor, std::uint32_t* tag) {
  std::uint64_t value = 0;
  int bytes = 0;
  if (!cursor->Varint(&value, &bytes) || bytes > 5) return false;
  *tag = static_cast<std::uint32_t>(value);
  return (*tag >> 3) != 0;
}

// Passes over the field that `tag` began. `depth` is how many groups may yet be opened.
bool SkipProtobufField(std::uint32_t tag, Cursor* cursor, int depth);

inline constexpr int kProtobufDepth = 96;  // of protobuf's 100, the messages around it taken off

// Calls f(tag, content) for each length-delimited field below 4 and skips all others; f answers
// whether protobuf accepts the content.
template <typename F>
bool EachProtobufField(std::span<const std::byte> message, F&& f) {
  Cursor cursor(message);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!ProtobufTag(&cursor, &tag)) return false;
    if ((tag & 7) != static_cast<std::uint32_t>(WireType::kBytes) || tag >> 3 > 3) {
      if (!SkipProtobufField(tag, &cursor, kProtobufDepth)) return false;
      continue;
    }
    std::span<const std::byte> content;
    if (!cursor.Bytes(&content) || !f(tag >> 3, content)) return false;
  }
  return true;
}

// Calls f(kind, list) for each list of each value of a map entry, in order.
template <typename F>
bool EachProtobufList(std::span<const std::byte> entry, F&& f) {
  return EachProtobufField(entry, [&f](std::uint32_t field, std::span<const std::byte> value) {
    return field != 2 ||
           EachProtobufField(value, [&f](std::uint32_t kind, std::span<const std::byte> list) {
             return f(static_cast<Kind>(kind), list);
           });
  });
}

// Calls f(bytes, count, packed) for each run of values of a list: a packed chunk, or one value
// without its tag.
template <typename F>
bool EachProtobufRun(Kind kind, std::span<const std::byte> list, F&& f) {
  Cursor cursor(list);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!ProtobufTag(&cursor, &tag)) return false;
    const std::byte* const begin = cursor.at();
    std::span<const std::byte> run;
    if (tag == (1 << 3 | 2)) {
      if (!cursor.Bytes(&run)) return false;
      std::int64_t count = 1;
      if (kind == Kind::kInt64) count = CountVarints(run);
      if (kind == Kind::kFloat) {
        count = run.size() % sizeof(float) == 0
                    ? static_cast<std::int64_t>(run.size() / sizeof(float))
                    : -1;
      }
      if (count < 0) return false;
      f(run, static_cast<std::uint32_t>(count));
      continue;
    }
    if (!SkipProtobufField(tag, &cursor, kProtobufDepth)) return false;
    const bool single = (kind == Kind::kInt64 && tag == (1 << 3 | 0)) ||
                        (kind == Kind::kFloat && tag == (1 << 3 | 5));
    if (single) f(std::span(begin, cursor.at()), std::uint32_t{1});
  }
  return true;
}

// The kind and number of values that protobuf sees in an entry: a list of another kind forgets
// those before it.
bool CountMerged(std::span<const std::byte> entry, Kind* kind, std::uint32_t* count);

// Calls f(bytes, count) for each run of the values that count. REQUIRES: CountMerged() was true.
template <typename F>
void ForEachMergedRun(std::span<const std::byte> entry, F&& f) {
  Kind last = Kind::kNone;
  int lists = 0;
  int first = 0;
  (void)EachProtobufList(entry, [&](Kind kind, std::span<const std::byte>) {
    if (kind != last) first = lists;
    last = kind;
    ++lists;
    return true;
  });
  lists = 0;
  (void)EachProtobufList(entry, [&](Kind kind, std::span<const std::byte> list) {
    return lists++ < first || EachProtobufRun(kind, list, f);
  });
}

}  // namespace stoker::example
