#include "daemon/example/parse_fault.h"

namespace stoker::example {
namespace {

constexpr std::uint64_t kFirstReservedField = std::uint64_t{1} << 29;

}  // namespace

FaultClass Fault(FaultClass fault, std::string_view key, std::string_view what,
                 std::string* detail) {
  detail->clear();
  if (!key.empty()) detail->append("feature \"").append(key).append("\": ");
  if (fault == FaultClass::kAmbiguousExample) {
    detail->append("TensorFlow and protobuf read it differently: ");
  }
  detail->append(what);
  return fault;
}

FaultClass Ambiguous(const char* what, std::string* detail) {
  return Fault(FaultClass::kAmbiguousExample, {}, what, detail);
}

FaultClass Malformed(const char* what, std::string* detail) {
  return Fault(FaultClass::kMalformedExample, {}, what, detail);
}

FaultClass LengthFault(Cursor at_length, const char* past_end, const char** what) {
  std::span<const std::byte> bytes;
  if (at_length.LooseBytes(&bytes)) {
    *what = "a length of six to nine bytes";
    return FaultClass::kAmbiguousExample;
  }
  *what = past_end;
  return FaultClass::kMalformedExample;
}

FaultClass LengthFault(Cursor at_length, const char* past_end, std::string* detail) {
  const char* what = "";
  const FaultClass fault = LengthFault(at_length, past_end, &what);
  return Fault(fault, {}, what, detail);
}

FaultClass SkipField(std::uint64_t tag, Cursor* cursor, std::string* detail) {
  const std::uint64_t field = tag >> 3;
  if (field == 0 || field >= kFirstReservedField) {
    return Ambiguous("a field number of 0 or above 2^29", detail);
  }
  bool good = false;
  std::uint64_t value = 0;
  int bytes = 0;
  std::span<const std::byte> skipped;
  switch (tag & 7) {
    case 0:
      good = cursor->Varint(&value, &bytes);
      break;
    case 1:
      good = cursor->Skip(8);
      break;
    case 2:
      if (cursor->Bytes(&skipped)) return FaultClass::kNone;
      return LengthFault(*cursor, "a field runs past the record", detail);
    case 3:
    case 4:
      return Ambiguous("a group", detail);
    case 5:
      good = cursor->Skip(4);
      break;
    default:
      return Malformed("a wire type that does not exist", detail);
  }
  return good ? FaultClass::kNone : Malformed("a field runs past the record", detail);
}

}  // namespace stoker::example
