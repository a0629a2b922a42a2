// TensorFlow's parse_single_example: known tags are compared byte for byte, the first kind and the
// first chunk count, and what stands behind them is not looked at.
#include "daemon/example/example_parser.h"
#include "daemon/example/readings.h"
#include "daemon/example/varint_count.h"

namespace stoker::example {
namespace {

constexpr std::byte kLengthTag1{0x0a};
constexpr std::byte kVarintTag1{0x08};
constexpr std::byte kFloatTag1{0x0d};

constexpr const char* kPastEnd = "a length runs past what encloses it";

FaultClass Refused(const char* what, std::string* detail) {
  if (what != kPastEnd) detail->append("TensorFlow refuses it: ");
  detail->append(what);
  return FaultClass::kMalformedExample;
}

// These return what is wrong, or nullptr.
const char* SkipTopLevel(Cursor* cursor, bool* has_lists) {
  constexpr const char* kBad = "a field at top level that cannot be passed over";
  std::uint64_t tag = 0;
  std::uint64_t value = 0;
  int bytes = 0;
  std::span<const std::byte> skipped;
  if (!cursor->Varint(&tag, &bytes)) return kBad;
  *has_lists = *has_lists || (bytes == 1 && tag == 0x12);
  switch (tag & 7) {
    case 0:
      return cursor->Varint(&value, &bytes) ? nullptr : kBad;
    case 1:
      return cursor->Skip(8) ? nullptr : kBad;
    case 2:
      return cursor->LooseBytes(&skipped) ? nullptr : kPastEnd;
    case 5:
      return cursor->Skip(4) ? nullptr : kBad;
    default:
      return kBad;
  }
}

// Exactly two fields, each a key or a value.
const char* ReadEntry(std::span<const std::byte> entry, std::span<const std::byte>* key,
                      std::span<const std::byte>* value) {
  constexpr const char* kBad = "a map entry is not one key and one value";
  Cursor cursor(entry);
  for (int i = 0; i < 2; ++i) {
    std::uint64_t tag = 0;
    int bytes = 0;
    if (!cursor.Varint(&tag, &bytes)) return kBad;
    tag = static_cast<std::uint32_t>(tag);
    if (tag != 0x0a && tag != 0x12) return kBad;
    if (!cursor.LooseBytes(tag == 0x0a ? key : value)) return kPastEnd;
  }
  return cursor.done() ? nullptr : kBad;
}

const char* ReadList(std::span<const std::byte> list, FeatureSpan* out) {
  Cursor cursor(list);
  out->bytes = list;
  if (list.empty()) return nullptr;
  if (out->kind != Kind::kBytes && list[0] == kLengthTag1) {
    std::span<const std::byte> chunk;
    (void)cursor.Skip(1);
    if (!cursor.LooseBytes(&chunk)) return kPastEnd;
    out->packed = true;
    if (out->kind == Kind::kInt64) {
      const std::int64_t count = CountVarints(chunk);
      out->count = static_cast<std::uint32_t>(count);
      out->bytes = chunk;
      return count >= 0 ? nullptr : "an int64 runs over its chunk or is too long";
    }
    out->count = static_cast<std::uint32_t>(chunk.size() / sizeof(float));
    out->bytes = chunk.first(out->count * sizeof(float));
    return nullptr;
  }
  const std::byte tag = out->kind == Kind::kBytes   ? kLengthTag1
                        : out->kind == Kind::kInt64 ? kVarintTag1
                                                    : kFloatTag1;
  while (!cursor.done()) {
    if (*cursor.at() != tag) return "a list holds a field that is not its values";
    (void)cursor.Skip(1);
    std::uint64_t value = 0;
    int bytes = 0;
    std::span<const std::byte> text;
    const bool good = out->kind == Kind::kBytes   ? cursor.LooseBytes(&text)
                      : out->kind == Kind::kInt64 ? cursor.Varint(&value, &bytes)
                                                  : cursor.Skip(sizeof(float));
    if (!good) {
      return out->kind == Kind::kBytes ? kPastEnd : "an unpacked value runs past its list";
    }
    ++out->count;
  }
  return nullptr;
}

// `out->bytes` is a Feature and becomes its values.
const char* ReadFeature(FeatureSpan* out) {
  const auto feature = out->bytes;
  *out = FeatureSpan{};
  if (feature.empty()) return nullptr;
  const auto tag = static_cast<unsigned>(feature[0]);
  if (tag != 0x0a && tag != 0x12 && tag != 0x1a) {
    return "a feature begins with a field that is not its list";
  }
  Cursor cursor(feature.subspan(1));
  std::span<const std::byte> list;
  if (!cursor.LooseBytes(&list)) return kPastEnd;
  out->kind = static_cast<Kind>(tag >> 3);
  return ReadList(list, out);
}

FaultClass ReadFeatures(const FeaturePlan& plan, std::span<const std::byte> features,
                        Findings* findings, std::string* detail) {
  Cursor cursor(features);
  while (!cursor.done()) {
    if (*cursor.at() != kLengthTag1) {
      return Refused("features hold a field that is not a feature", detail);
    }
    (void)cursor.Skip(1);
    std::span<const std::byte> entry;
    if (!cursor.LooseBytes(&entry)) return Refused(kPastEnd, detail);
    std::span<const std::byte> key;
    std::span<const std::byte> value;
    if (const char* wrong = ReadEntry(entry, &key, &value)) return Refused(wrong, detail);
    const int number = plan.Find({reinterpret_cast<const char*>(key.data()), key.size()});
    if (number < 0) continue;
    const auto place = static_cast<std::size_t>(number);
    findings->duplicates += findings->seen[place];
    findings->seen[place] = 1;
    // The last one that is not empty counts, and no other is looked into.
    if (!value.empty()) findings->found[place].bytes = value;
  }
  return FaultClass::kNone;
}

}  // namespace

FaultClass ReadAsTensorFlow(const FeaturePlan& plan, std::span<const std::byte> record,
                            Findings* findings, std::string* detail) {
  Cursor cursor(record);
  while (!cursor.done()) {
    if (*cursor.at() != kLengthTag1) {
      if (const char* wrong = SkipTopLevel(&cursor, &findings->has_lists)) {
        return Refused(wrong, detail);
      }
      continue;
    }
    (void)cursor.Skip(1);
    std::span<const std::byte> features;
    if (!cursor.LooseBytes(&features)) return Refused(kPastEnd, detail);
    const FaultClass fault = ReadFeatures(plan, features, findings, detail);
    if (fault != FaultClass::kNone) return fault;
  }
  for (std::size_t key = 0; key < findings->found.size(); ++key) {
    const char* wrong = ReadFeature(&findings->found[key]);
    if (wrong == nullptr) continue;
    detail->append("feature \"").append(plan.keys()[key]).append("\": ");
    return Refused(wrong, detail);
  }
  return FaultClass::kNone;
}

}  // namespace stoker::example
