#include "daemon/example/sequence_parser.h"

#include <algorithm>

#include "daemon/example/parse_fault.h"

namespace stoker::example {
namespace {

constexpr std::uint64_t kFirstTag = 0x0a;   // field 1, length-delimited
constexpr std::uint64_t kSecondTag = 0x12;  // field 2, length-delimited

// A tag and, where it is length-delimited, what it covers.
FaultClass NextField(Cursor* cursor, std::uint64_t* tag, std::string* detail) {
  int bytes = 0;
  if (!cursor->Varint(tag, &bytes)) return Malformed("a tag runs past what encloses it", detail);
  if (bytes > 1 && *(cursor->at() - 1) == std::byte{0}) {
    return Ambiguous("a tag in over-long form", detail);
  }
  return FaultClass::kNone;
}

FaultClass Named(const std::string& name, FaultClass fault, const char* what, std::string* detail) {
  return Fault(fault, name, what, detail);
}

}  // namespace

SequenceParser::SequenceParser(const FeaturePlan* plan)
    : plan_(plan), seen_(plan->size()), unfit_(plan->size()) {}

FaultClass SequenceParser::Parse(std::span<const std::byte> record, std::span<FeatureSpan> out,
                                 ParseCounters* counters, std::string* detail) {
  std::fill(out.begin(), out.end(), FeatureSpan{});
  std::fill(seen_.begin(), seen_.end(), std::uint8_t{0});
  std::fill(unfit_.begin(), unfit_.end(), std::uint8_t{0});
  duplicates_ = 0;
  Cursor cursor(record);
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    FaultClass fault = NextField(&cursor, &tag, detail);
    if (fault != FaultClass::kNone) return fault;
    if (tag == kFirstTag || tag == kSecondTag) {
      std::span<const std::byte> map;
      if (!cursor.Bytes(&map)) {
        return LengthFault(cursor, "context or feature_lists run past the record", detail);
      }
      fault = ParseMap(tag == kSecondTag, map, out, detail);
    } else {
      fault = SkipField(tag, &cursor, detail);
    }
    if (fault != FaultClass::kNone) return fault;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (unfit_[i] != 0) return ParseList(plan_->request(i), out[i].bytes, &out[i], detail);
    if (seen_[i] == 0 || plan_->request(i).list || out[i].kind != Kind::kNone) continue;
    return Named(plan_->request(i).name, FaultClass::kAmbiguousExample,
                 "a context feature without a kind", detail);
  }
  counters->duplicate_keys += duplicates_;
  return FaultClass::kNone;
}

FaultClass SequenceParser::ParseMap(bool lists, std::span<const std::byte> map,
                                    std::span<FeatureSpan> out, std::string* detail) {
  Cursor cursor(map);
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    const FaultClass fault = NextField(&cursor, &tag, detail);
    if (fault != FaultClass::kNone) return fault;
    if (tag != kFirstTag) return Ambiguous("a map holds a field that is not an entry", detail);
    std::span<const std::byte> entry;
    if (!cursor.Bytes(&entry)) return LengthFault(cursor, "an entry runs past its map", detail);
    const FaultClass inside = ParseEntry(lists, entry, out, detail);
    if (inside != FaultClass::kNone) return inside;
  }
  return FaultClass::kNone;
}

FaultClass SequenceParser::ParseEntry(bool lists, std::span<const std::byte> entry,
                                      std::span<FeatureSpan> out, std::string* detail) {
  std::span<const std::byte> parts[2];
  Cursor cursor(entry);
  for (const std::uint64_t want : {kFirstTag, kSecondTag}) {
    if (cursor.done()) return Ambiguous("a map entry without a key or a value", detail);
    std::uint64_t tag = 0;
    const FaultClass fault = NextField(&cursor, &tag, detail);
    if (fault != FaultClass::kNone) return fault;
    if (tag != want) return Ambiguous("a map entry that is not a key and then a value", detail);
    if (!cursor.Bytes(&parts[want == kSecondTag ? 1 : 0])) {
      return LengthFault(cursor, "a key or value runs past its map entry", detail);
    }
  }
  if (!cursor.done()) return Ambiguous("a map entry holds more than a key and a value", detail);
  const std::string_view key(reinterpret_cast<const char*>(parts[0].data()), parts[0].size());
  if (!IsUtf8(key)) return Ambiguous("a key that is not UTF-8", detail);
  bool counted = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const FeatureRequest& request = plan_->request(i);
    if (request.list != lists || request.name != key) continue;
    if (seen_[i] != 0 && !counted) {
      ++duplicates_;
      counted = true;
    }
    seen_[i] = 1;
    FaultClass fault = FaultClass::kNone;
    if (lists) {
      fault = ParseList(request, parts[1], &out[i], detail);
      // Another list of the same key may yet take its place.
      unfit_[i] = fault == FaultClass::kFeatureKind || fault == FaultClass::kFeatureCount ? 1 : 0;
      if (unfit_[i] != 0) fault = FaultClass::kNone;
    } else {
      const char* what = "";
      fault = ParseFeature(parts[1], &out[i], &what);
      if (fault != FaultClass::kNone) return Named(request.name, fault, what, detail);
    }
    if (fault != FaultClass::kNone) return fault;
  }
  return FaultClass::kNone;
}

FaultClass SequenceParser::ParseList(const FeatureRequest& request, std::span<const std::byte> list,
                                     FeatureSpan* out, std::string* detail) const {
  *out = FeatureSpan{};
  out->kind = request.kind;
  out->steps = true;
  out->bytes = list;
  Cursor cursor(list);
  for (std::uint32_t step = 0; !cursor.done(); ++step) {
    if (*cursor.at() != static_cast<std::byte>(kFirstTag)) {
      return Named(request.name, FaultClass::kAmbiguousExample,
                   "a feature list holds a field that is not a step", detail);
    }
    (void)cursor.Skip(1);
    std::span<const std::byte> bytes;
    const char* what = "";
    if (!cursor.Bytes(&bytes)) {
      const FaultClass fault = LengthFault(cursor, "a step runs past its feature list", &what);
      return Named(request.name, fault, what, detail);
    }
    FeatureSpan span;
    const FaultClass fault = ParseFeature(bytes, &span, &what);
    if (fault != FaultClass::kNone) return Named(request.name, fault, what, detail);
    if (span.kind != Kind::kNone && span.kind != request.kind) {
      *detail = "feature list \"" + request.name + "\" is declared " + KindName(request.kind) +
                "; step " + std::to_string(step) + " is stored as " + KindName(span.kind);
      return FaultClass::kFeatureKind;
    }
    if (request.step_values > 0 && span.count != request.step_values) {
      *detail = "feature list \"" + request.name + "\": step " + std::to_string(step) + " has " +
                std::to_string(span.count) + " values, expected " +
                std::to_string(request.step_values);
      return FaultClass::kFeatureCount;
    }
    out->count += span.count;
  }
  return FaultClass::kNone;
}

FaultClass CheckList(const FeatureRequest& request, const FeatureSpan& span, std::string* detail) {
  if (span.kind != Kind::kNone || request.fixed_has_default) return FaultClass::kNone;
  *detail = "feature list \"" + request.name + "\" is missing; set allow_missing where it may be";
  return FaultClass::kFeatureMissing;
}

}  // namespace stoker::example
