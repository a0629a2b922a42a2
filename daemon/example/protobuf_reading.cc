#include "daemon/example/example_parser.h"
#include "daemon/example/protobuf_walk.h"
#include "daemon/example/readings.h"

namespace stoker::example {
namespace {

FaultClass Refused(const char* what, std::string* detail) {
  detail->append("protobuf refuses it: ").append(what);
  return FaultClass::kMalformedExample;
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool ReadEntry(const FeaturePlan& plan, std::span<const std::byte> entry, Findings* findings) {
  std::span<const std::byte> key;
  const bool walked =
      EachProtobufField(entry, [&key](std::uint32_t field, std::span<const std::byte> content) {
        if (field == 1) key = content;
        return field != 1 ||
               IsUtf8(Text(content));  // each that comes, also where a later one counts
      });
  if (!walked) return false;
  const int number = plan.Find(Text(key));
  if (number < 0) return true;
  const auto place = static_cast<std::size_t>(number);
  findings->duplicates += findings->seen[place];
  findings->seen[place] = 1;
  FeatureSpan& span = findings->found[place];
  span = FeatureSpan{};
  span.merged = true;
  span.bytes = entry;
  return CountMerged(entry, &span.kind, &span.count);
}

}  // namespace

bool SkipProtobufField(std::uint32_t tag, Cursor* cursor, int depth) {
  std::uint64_t value = 0;
  int bytes = 0;
  std::span<const std::byte> skipped;
  switch (tag & 7) {
    case 0:
      return cursor->Varint(&value, &bytes);
    case 1:
      return cursor->Skip(8);
    case 2:
      return cursor->Bytes(&skipped);
    case 5:
      return cursor->Skip(4);
    case 3:
      break;
    default:
      return false;
  }
  if (depth == 0) return false;
  while (true) {
    std::uint32_t inner = 0;
    if (!ProtobufTag(cursor, &inner)) return false;
    if ((inner & 7) == 4) return inner >> 3 == tag >> 3;
    if (!SkipProtobufField(inner, cursor, depth - 1)) return false;
  }
}

bool CountMerged(std::span<const std::byte> entry, Kind* kind, std::uint32_t* count) {
  *kind = Kind::kNone;
  *count = 0;
  return EachProtobufList(entry, [&](Kind list_kind, std::span<const std::byte> list) {
    if (list_kind != *kind) *count = 0;
    *kind = list_kind;
    return EachProtobufRun(list_kind, list,
                           [count](std::span<const std::byte>, std::uint32_t n) { *count += n; });
  });
}

FaultClass ReadAsProtobuf(const FeaturePlan& plan, std::span<const std::byte> record,
                          Findings* findings, std::string* detail) {
  const char* what = "a field that cannot be passed over, or runs past what encloses it";
  const bool good = EachProtobufField(record, [&](std::uint32_t field,
                                                  std::span<const std::byte> features) {
    findings->has_lists = findings->has_lists || field == 2;
    if (field != 1) return true;
    return EachProtobufField(features, [&](std::uint32_t inner, std::span<const std::byte> entry) {
      if (inner != 1 || ReadEntry(plan, entry, findings)) return true;
      what = "a map entry that cannot be read, or a key not UTF-8";
      return false;
    });
  });
  return good ? FaultClass::kNone : Refused(what, detail);
}

}  // namespace stoker::example
