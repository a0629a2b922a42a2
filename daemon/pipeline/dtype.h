// Element types: sizes and DLPack's numbers for the schema's DType.
#pragma once

#include <cstdint>

#include "daemon/base/half.h"
#include "stoker/v1/dtype.pb.h"

namespace stoker::pipeline {

// DLPack's type codes (DLDataTypeCode).
struct DlType {
  std::uint8_t code;
  std::uint8_t bits;
};

inline DlType ToDlType(v1::DType dtype) {
  switch (dtype) {
    case v1::UINT8:
      return {1, 8};
    case v1::UINT16:
      return {1, 16};
    case v1::UINT32:
      return {1, 32};
    case v1::UINT64:
      return {1, 64};
    case v1::INT8:
      return {0, 8};
    case v1::INT16:
      return {0, 16};
    case v1::INT32:
      return {0, 32};
    case v1::INT64:
      return {0, 64};
    case v1::FLOAT16:
      return {2, 16};
    case v1::FLOAT32:
      return {2, 32};
    case v1::FLOAT64:
      return {2, 64};
    case v1::BFLOAT16:
      return {4, 16};
    case v1::BOOL:
      return {6, 8};
    default:
      return {1, 8};  // BYTES are delivered as uint8
  }
}

inline std::uint32_t ItemBytes(v1::DType dtype) { return ToDlType(dtype).bits / 8u; }

inline bool IsFloating(v1::DType dtype) {
  return dtype == v1::FLOAT16 || dtype == v1::BFLOAT16 || dtype == v1::FLOAT32 ||
         dtype == v1::FLOAT64;
}

}  // namespace stoker::pipeline
