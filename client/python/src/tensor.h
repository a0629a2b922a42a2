// Tensor: one tensor of a batch as Python sees it: a buffer, and DLPack in both forms.
//
// Ownership: a tensor holds its batch; so does everything exported from it, and each export may
//   outlive the tensor, the batch and the stream.
// Thread-safety: immutable. Exports are released from any thread, with or without the GIL.
// Errors: BufferError where what is asked for cannot be given without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <string>

#include "client/python/src/batch_ref.h"
#include "stoker/stoker.h"

namespace stoker::python {

class Tensor {
 public:
  Tensor(BatchRef batch, const stoker_tensor& tensor);

  std::string name() const { return {raw_.name, raw_.name_bytes}; }
  const stoker_tensor& raw() const { return raw_; }
  const std::int64_t* strides() const { return strides_.data(); }  // elements
  const BatchRef& batch() const { return batch_; }
  // "float32"; "bfloat16".
  std::string dtype() const;
  nanobind::tuple shape() const;
  int GetBuffer(PyObject* self, Py_buffer* view, int flags);
  // As the array API's `__dlpack__` says.
  nanobind::object Dlpack(nanobind::object stream, nanobind::object max_version,
                          nanobind::object device, nanobind::object copy) const;
  // A legacy capsule of the slot itself, for an importer that promises not to write.
  nanobind::object Lend() const;

 private:
  BatchRef batch_;
  stoker_tensor raw_;
  std::array<std::int64_t, 8> strides_ = {};
  std::array<Py_ssize_t, 8> byte_strides_ = {};
};

void DefineTensor(nanobind::module_& module);

}  // namespace stoker::python
