#include "daemon/example/example_parser.h"

#include <algorithm>

#include "daemon/example/parse_fault.h"
#include "daemon/example/varint_count.h"

namespace stoker::example {
namespace {

// Tags of the messages, in their canonical one-byte form: field << 3 | wire type.
constexpr std::uint64_t kFeaturesTag = 0x0a;      // Example.features
constexpr std::uint64_t kFeatureListsTag = 0x12;  // SequenceExample.feature_lists
constexpr std::uint64_t kEntryTag = 0x0a;         // Features.feature
constexpr std::uint64_t kKeyTag = 0x0a;
constexpr std::uint64_t kValueTag = 0x12;
constexpr std::byte kPackedTag{0x0a};
constexpr std::byte kBytesTag{0x0a};
constexpr std::byte kUnpackedInt64Tag{0x08};
constexpr std::byte kUnpackedFloatTag{0x0d};

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool Utf8(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* const end = p + bytes.size();
  while (p < end) {
    if (*p < 0x80) {
      ++p;
      continue;
    }
    const int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
    if (*p < 0xc2 || *p > 0xf4 || end - p <= more) return false;
    const unsigned second = p[1];
    if ((*p == 0xe0 && second < 0xa0) || (*p == 0xed && second > 0x9f) ||
        (*p == 0xf0 && second < 0x90) || (*p == 0xf4 && second > 0x8f)) {
      return false;
    }
    for (int i = 1; i <= more; ++i) {
      if ((p[i] & 0xc0) != 0x80) return false;
    }
    p += more + 1;
  }
  return true;
}

FaultClass ParseNumbers(Kind kind, std::span<const std::byte> list, FeatureSpan* out,
                        const char** what) {
  Cursor cursor(list);
  const std::byte unpacked = kind == Kind::kInt64 ? kUnpackedInt64Tag : kUnpackedFloatTag;
  if (list[0] == kPackedTag) {
    (void)cursor.Skip(1);
    std::span<const std::byte> chunk;
    if (!cursor.Bytes(&chunk)) {
      return LengthFault(cursor, "a packed chunk runs past its list", what);
    }
    out->packed = true;
    out->bytes = chunk;
    if (kind == Kind::kFloat) {
      if (chunk.size() % sizeof(float) != 0) {
        *what = "a packed float chunk is not a whole number of floats";
        return FaultClass::kAmbiguousExample;
      }
      out->count = static_cast<std::uint32_t>(chunk.size() / sizeof(float));
    } else {
      const std::int64_t count = CountVarints(chunk);
      if (count < 0) {
        *what = "an int64 runs over its chunk or is longer than ten bytes";
        return FaultClass::kMalformedExample;
      }
      out->count = static_cast<std::uint32_t>(count);
    }
    if (cursor.done()) return FaultClass::kNone;
    *what = "a list goes on behind its packed chunk";
    return FaultClass::kAmbiguousExample;
  }
  out->bytes = list;
  while (!cursor.done()) {
    if (*cursor.at() != unpacked) {
      *what = "a list holds a field that is not its values, or packed and unpacked values";
      return FaultClass::kAmbiguousExample;
    }
    (void)cursor.Skip(1);
    std::uint64_t value = 0;
    int bytes = 0;
    if (kind == Kind::kInt64 ? !cursor.Varint(&value, &bytes) : !cursor.Skip(sizeof(float))) {
      *what = "an unpacked value runs past its list";
      return FaultClass::kMalformedExample;
    }
    ++out->count;
  }
  return FaultClass::kNone;
}

FaultClass ParseStrings(std::span<const std::byte> list, FeatureSpan* out, const char** what) {
  Cursor cursor(list);
  out->bytes = list;
  while (!cursor.done()) {
    if (*cursor.at() != kBytesTag) {
      *what = "a bytes_list holds a field that is not its values";
      return FaultClass::kAmbiguousExample;
    }
    (void)cursor.Skip(1);
    std::span<const std::byte> value;
    if (!cursor.Bytes(&value)) {
      return LengthFault(cursor, "a byte string runs past its list", what);
    }
    ++out->count;
  }
  return FaultClass::kNone;
}

}  // namespace

bool IsUtf8(std::string_view text) { return Utf8(std::as_bytes(std::span(text))); }

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "bytes_list";
    case Kind::kFloat:
      return "float_list";
    case Kind::kInt64:
      return "int64_list";
    case Kind::kNone:
      break;
  }
  return "nothing";
}

Result<FeaturePlan> FeaturePlan::Make(std::vector<FeatureRequest> requests) {
  FeaturePlan plan;
  for (const auto& request : requests) plan.keys_.push_back(request.name);
  std::sort(plan.keys_.begin(), plan.keys_.end());
  plan.keys_.erase(std::unique(plan.keys_.begin(), plan.keys_.end()), plan.keys_.end());
  for (const auto& key : plan.keys_) {
    plan.key_first_.push_back(static_cast<std::uint32_t>(plan.order_.size()));
    for (std::uint32_t i = 0; i < requests.size(); ++i) {
      if (requests[i].name == key) plan.order_.push_back(i);
    }
  }
  plan.key_first_.push_back(static_cast<std::uint32_t>(plan.order_.size()));
  plan.requests_ = std::move(requests);
  return plan;
}

int FeaturePlan::Find(std::string_view key) const {
  const auto it = std::lower_bound(keys_.begin(), keys_.end(), key);
  return it != keys_.end() && *it == key ? static_cast<int>(it - keys_.begin()) : -1;
}

ExampleParser::ExampleParser(const FeaturePlan* plan, Mode mode)
    : plan_(plan), mode_(mode), found_(plan->keys().size()), seen_(plan->keys().size()) {}

FaultClass ExampleParser::Parse(std::span<const std::byte> record, std::span<FeatureSpan> out,
                                ParseCounters* counters, std::string* detail) {
  if (memo_.Match(record, out)) return FaultClass::kNone;
  const ParseCounters before = *counters;
  const FaultClass fault = ParseAnew(record, out, counters, detail);
  if (fault != FaultClass::kNone && mode_ != Mode::kStrict) {
    return ParseLoosely(record, out, counters, detail);
  }
  if (fault == FaultClass::kNone && *counters == before) memo_.Learn(record, out);
  return fault;
}

FaultClass ExampleParser::ParseAnew(std::span<const std::byte> record, std::span<FeatureSpan> out,
                                    ParseCounters* counters, std::string* detail) {
  std::fill(found_.begin(), found_.end(), FeatureSpan{});
  std::fill(seen_.begin(), seen_.end(), std::uint8_t{0});
  place_ = 0;
  duplicates_ = 0;
  bool has_lists = false;
  Cursor cursor(record);
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    int bytes = 0;
    if (!cursor.Varint(&tag, &bytes)) return Malformed("a tag runs past the record", detail);
    // Its last byte is zero where the one before it could have ended it.
    if (bytes > 1 && *(cursor.at() - 1) == std::byte{0}) {
      return Ambiguous("a tag in over-long form", detail);
    }
    if (tag == kFeaturesTag) {
      std::span<const std::byte> features;
      if (!cursor.Bytes(&features)) {
        return LengthFault(cursor, "features run past the record", detail);
      }
      if (const auto fault = ParseFeatures(features, detail); fault != FaultClass::kNone) {
        return fault;
      }
      continue;
    }
    has_lists = has_lists || tag == kFeatureListsTag;
    if (const auto fault = SkipField(tag, &cursor, detail); fault != FaultClass::kNone) {
      return fault;
    }
  }
  if (duplicates_ > 0) {
    for (std::size_t key = 0; key < found_.size(); ++key) {
      if (seen_[key] != 2 || found_[key].kind != Kind::kNone) continue;
      return Fault(FaultClass::kAmbiguousExample, plan_->keys()[key],
                   "its last duplicate has no kind and an earlier one has", detail);
    }
  }
  const FaultClass fault = HandOut(has_lists, out, detail);
  if (fault == FaultClass::kNone) counters->duplicate_keys += duplicates_;
  return fault;
}

FaultClass ExampleParser::ParseLoosely(std::span<const std::byte> record,
                                       std::span<FeatureSpan> out, ParseCounters* counters,
                                       std::string* detail) {
  std::fill(found_.begin(), found_.end(), FeatureSpan{});
  std::fill(seen_.begin(), seen_.end(), std::uint8_t{0});
  Findings findings{found_, seen_};
  detail->clear();
  FaultClass fault = mode_ == Mode::kTensorFlow
                         ? ReadAsTensorFlow(*plan_, record, &findings, detail)
                         : ReadAsProtobuf(*plan_, record, &findings, detail);
  if (fault == FaultClass::kNone) fault = HandOut(findings.has_lists, out, detail);
  if (fault != FaultClass::kNone) return fault;
  ++counters->ambiguous;
  counters->duplicate_keys += findings.duplicates;
  return FaultClass::kNone;
}

FaultClass ExampleParser::HandOut(bool has_lists, std::span<FeatureSpan> out,
                                  std::string* detail) const {
  for (std::size_t key = 0; key < found_.size(); ++key) {
    if (has_lists && found_[key].kind == Kind::kNone) {
      *detail = "it has feature_lists and lacks \"" + plan_->keys()[key] +
                "\": this is a SequenceExample, and the spec asks for an Example";
      return FaultClass::kMalformedExample;
    }
    for (std::uint32_t i = plan_->key_first(key); i < plan_->key_first(key + 1); ++i) {
      out[plan_->order()[i]] = found_[key];
    }
  }
  return FaultClass::kNone;
}

FaultClass ExampleParser::ParseFeatures(std::span<const std::byte> features, std::string* detail) {
  Cursor cursor(features);
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    int bytes = 0;
    if (!cursor.Varint(&tag, &bytes)) return Malformed("a tag runs past features", detail);
    if (bytes > 1 && tag < 0x80) return Ambiguous("a tag in over-long form", detail);
    if (tag != kEntryTag) {
      return Ambiguous("features hold a field that is not a feature", detail);
    }
    std::span<const std::byte> entry;
    if (!cursor.Bytes(&entry)) return LengthFault(cursor, "a feature runs past features", detail);
    if (const auto fault = ParseEntry(entry, detail); fault != FaultClass::kNone) return fault;
  }
  return FaultClass::kNone;
}

FaultClass ExampleParser::ParseEntry(std::span<const std::byte> entry, std::string* detail) {
  std::span<const std::byte> key;
  std::span<const std::byte> value;
  int keys = 0;
  int values = 0;
  Cursor cursor(entry);
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    int bytes = 0;
    if (!cursor.Varint(&tag, &bytes)) return Malformed("a tag runs past its map entry", detail);
    if (bytes > 1 && tag < 0x80) return Ambiguous("a tag in over-long form", detail);
    if (tag != kKeyTag && tag != kValueTag) {
      return Ambiguous("a map entry holds more than a key and a value", detail);
    }
    if (!cursor.Bytes(tag == kKeyTag ? &key : &value)) {
      return LengthFault(cursor, "a key or value runs past its map entry", detail);
    }
    ++(tag == kKeyTag ? keys : values);
  }
  if (keys != 1 || values != 1) {
    return Ambiguous("a map entry without exactly one key and one value", detail);
  }
  const int number = NumberOf(key);
  if (number < 0) {
    // A remembered key was checked when it was remembered.
    return number == -1 ? FaultClass::kNone : Ambiguous("a key that is not UTF-8", detail);
  }
  FeatureSpan span;
  const char* what = "";
  const FaultClass fault = ParseFeature(value, &span, &what);
  if (fault != FaultClass::kNone) {
    return Fault(fault, Text(key), what, detail);
  }
  std::uint8_t& seen = seen_[static_cast<std::size_t>(number)];
  if (seen != 0) ++duplicates_;
  seen = span.kind == Kind::kNone ? std::max(seen, std::uint8_t{1}) : std::uint8_t{2};
  found_[static_cast<std::size_t>(number)] = span;
  return FaultClass::kNone;
}

// The key's number in the plan; -1 for one that nobody asked for, -2 for one that is not UTF-8.
int ExampleParser::NumberOf(std::span<const std::byte> key) {
  const std::size_t place = place_++;
  if (place < remembered_.size()) {
    const Remembered& last = remembered_[place];
    if (last.key.size() == key.size() &&
        std::memcmp(last.key.data(), key.data(), key.size()) == 0) {
      return last.number;
    }
  }
  if (!Utf8(key)) return -2;
  const int number = plan_->Find(Text(key));
  constexpr std::size_t kMostRemembered = 4096;
  if (place < kMostRemembered) {
    if (place >= remembered_.size()) remembered_.resize(place + 1);
    remembered_[place].key.assign(Text(key));
    remembered_[place].number = number;
  }
  return number;
}

FaultClass ParseFeature(std::span<const std::byte> feature, FeatureSpan* out, const char** what) {
  *out = FeatureSpan{};
  if (feature.empty()) return FaultClass::kNone;
  Cursor cursor(feature);
  const auto tag = static_cast<unsigned>(*cursor.at());
  if (tag != 0x0a && tag != 0x12 && tag != 0x1a) {
    *what = "a feature begins with a field that is not its list";
    return FaultClass::kAmbiguousExample;
  }
  (void)cursor.Skip(1);
  std::span<const std::byte> list;
  if (!cursor.Bytes(&list)) {
    return LengthFault(cursor, "a list runs past its feature", what);
  }
  if (!cursor.done()) {
    *what = "a feature goes on behind its list (two kinds, a list twice, or other bytes)";
    return FaultClass::kAmbiguousExample;
  }
  out->kind = static_cast<Kind>(tag >> 3);
  if (list.empty()) return FaultClass::kNone;
  return out->kind == Kind::kBytes ? ParseStrings(list, out, what)
                                   : ParseNumbers(out->kind, list, out, what);
}

FaultClass CheckFixed(const FeatureRequest& request, const FeatureSpan& span,
                      std::uint64_t expected, std::span<const std::byte> record,
                      std::string* detail) {
  if (span.kind == request.kind && span.count == expected) return FaultClass::kNone;
  if (span.kind == Kind::kNone) {
    if (request.fixed_has_default) return FaultClass::kNone;
    *detail = "feature \"" + request.name + "\" (" + KindName(request.kind) +
              ") is missing; the record has";
    const auto keys = PresentKeys(record);
    if (keys.empty()) *detail += " none";
    for (const auto& key : keys) *detail += " \"" + key + "\"";
    return FaultClass::kFeatureMissing;
  }
  if (span.kind != request.kind) {
    *detail = "feature \"" + request.name + "\" is declared " + KindName(request.kind) +
              " and stored as " + KindName(span.kind);
    return FaultClass::kFeatureKind;
  }
  *detail = "feature \"" + request.name + "\" has " + std::to_string(span.count) +
            " values, expected " + std::to_string(expected);
  return FaultClass::kFeatureCount;
}

FaultClass CheckVariable(const FeatureRequest& request, const FeatureSpan& span,
                         std::span<const std::byte>, std::string* detail) {
  if (span.kind == request.kind || span.kind == Kind::kNone) return FaultClass::kNone;
  *detail = "feature \"" + request.name + "\" is declared " + KindName(request.kind) +
            " and stored as " + KindName(span.kind);
  return FaultClass::kFeatureKind;
}

void CopyInt64(const FeatureSpan& span, std::int64_t* dst) {
  if (span.steps) {
    return ForEachStep(span, [&dst](const FeatureSpan& step) {
      CopyInt64(step, dst);
      dst += step.count;
    });
  }
  std::uint64_t value = 0;
  int bytes = 0;
  if (span.merged) {
    return ForEachMergedRun(span.bytes, [&](std::span<const std::byte> run, std::uint32_t count) {
      Cursor values(run);
      for (std::uint32_t i = 0; i < count; ++i) {
        (void)values.Varint(&value, &bytes);
        std::memcpy(dst++, &value, sizeof(value));
      }
    });
  }
  Cursor cursor(span.bytes);
  for (std::uint32_t i = 0; i < span.count; ++i) {
    if (!span.packed) (void)cursor.Skip(1);
    (void)cursor.Varint(&value, &bytes);
    std::memcpy(dst + i, &value, sizeof(value));
  }
}

void CopyFloat(const FeatureSpan& span, float* dst) {
  if (span.steps) {
    return ForEachStep(span, [&dst](const FeatureSpan& step) {
      CopyFloat(step, dst);
      dst += step.count;
    });
  }
  if (span.merged) {
    return ForEachMergedRun(span.bytes, [&](std::span<const std::byte> run, std::uint32_t count) {
      if (count > 0) std::memcpy(dst, run.data(), run.size());
      dst += count;
    });
  }
  if (span.packed) {
    if (span.count > 0) std::memcpy(dst, span.bytes.data(), span.bytes.size());
    return;
  }
  const std::byte* at = span.bytes.data();
  for (std::uint32_t i = 0; i < span.count; ++i, at += 1 + sizeof(float)) {
    std::memcpy(dst + i, at + 1, sizeof(float));
  }
}

std::uint64_t BytesTotal(const FeatureSpan& span) {
  std::uint64_t total = 0;
  ForEachBytes(span, [&total](std::span<const std::byte> value) { total += value.size(); });
  return total;
}

namespace {

// Calls f(key, value) for each map entry, reading loosely; false where the bytes are no Features.
template <typename F>
bool EachEntry(std::span<const std::byte> features, F f) {
  Cursor cursor(features);
  while (!cursor.done()) {
    std::span<const std::byte> entry;
    if (*cursor.at() != std::byte{kEntryTag} || !cursor.Skip(1) || !cursor.Bytes(&entry))
      return false;
    Cursor inside(entry);
    std::span<const std::byte> key;
    std::span<const std::byte> value;
    int keys = 0;
    int values = 0;
    while (!inside.done()) {
      const auto tag = static_cast<std::uint64_t>(*inside.at());
      if ((tag != kKeyTag && tag != kValueTag) || !inside.Skip(1) ||
          !inside.Bytes(tag == kKeyTag ? &key : &value)) {
        return false;
      }
      ++(tag == kKeyTag ? keys : values);
    }
    // Other messages (a list of Examples, say) have fields of the same numbers, but not one of
    // each.
    if (keys != 1 || values != 1) return false;
    f(key, value);
  }
  return true;
}

}  // namespace

std::vector<std::string> PresentKeys(std::span<const std::byte> record) {
  std::vector<std::string> keys;
  Cursor cursor(record);
  std::string ignored;
  while (!cursor.done()) {
    std::uint64_t tag = 0;
    int bytes = 0;
    if (!cursor.Varint(&tag, &bytes)) break;
    if (tag != kFeaturesTag) {
      if (SkipField(tag, &cursor, &ignored) != FaultClass::kNone) break;
      continue;
    }
    std::span<const std::byte> features;
    if (!cursor.Bytes(&features)) break;
    EachEntry(features, [&keys](std::span<const std::byte> key, std::span<const std::byte> value) {
      const auto same = std::find(keys.begin(), keys.end(), Text(key));
      if (same != keys.end()) keys.erase(same);
      if (!value.empty()) keys.emplace_back(Text(key));
    });
  }
  return keys;
}

RecordKind Summarize(std::span<const std::byte> record, std::vector<FeatureSummary>* features) {
  features->clear();
  Cursor cursor(record);
  bool lists = false;
  bool good = true;
  while (good && !cursor.done()) {
    const auto tag = static_cast<std::uint64_t>(*cursor.at());
    std::span<const std::byte> body;
    if ((tag != kFeaturesTag && tag != kFeatureListsTag) || !cursor.Skip(1) ||
        !cursor.Bytes(&body)) {
      good = false;
      break;
    }
    if (tag == kFeatureListsTag) {
      // FeatureLists hold entries of key and FeatureList, as Features hold key and Feature.
      lists = true;
      good = EachEntry(body, [](std::span<const std::byte>, std::span<const std::byte>) {});
      continue;
    }
    good = EachEntry(body,
                     [&](std::span<const std::byte> key, std::span<const std::byte> value) {
                       FeatureSummary summary;
                       const char* what = "";
                       summary.name = std::string(Text(key));
                       if (ParseFeature(value, &summary.span, &what) != FaultClass::kNone)
                         good = false;
                       const auto same = std::find_if(
                           features->begin(), features->end(),
                           [&](const auto& other) { return other.name == summary.name; });
                       if (same != features->end()) {
                         *same = std::move(summary);
                       } else {
                         features->push_back(std::move(summary));
                       }
                     }) &&
           good;
  }
  if (!good) {
    features->clear();
    return RecordKind::kOther;
  }
  return lists ? RecordKind::kSequenceExample : RecordKind::kExample;
}

}  // namespace stoker::example
