// DLPack's structs, as its ABI fixes them: version 1.0, and the form before versions.
#pragma once

#include <cstdint>

namespace stoker::python::dlpack {

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // elements
  std::uint64_t byte_offset;
};

struct Legacy {
  Array array;
  void* context;
  void (*deleter)(Legacy*);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kCopied = 2;

struct Versioned {
  Version version;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Array array;
};

static_assert(sizeof(Array) == 48 && sizeof(Legacy) == 64 && sizeof(Versioned) == 80);

}  // namespace stoker::python::dlpack
