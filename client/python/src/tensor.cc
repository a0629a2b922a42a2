#include "client/python/src/tensor.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "client/python/src/dlpack.h"

namespace stoker::python {
namespace {

namespace nb = nanobind;

enum DlCode : std::uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

// struct's letter of the element, as NumPy's own types have it on LP64; NULL where it has none.
const char* Format(const stoker_tensor& t) {
  switch (t.dtype_code << 8 | t.dtype_bits) {
    case kInt << 8 | 8:
      return "b";
    case kInt << 8 | 16:
      return "h";
    case kInt << 8 | 32:
      return "i";
    case kInt << 8 | 64:
      return "l";
    case kUint << 8 | 8:
      return "B";
    case kUint << 8 | 16:
      return "H";
    case kUint << 8 | 32:
      return "I";
    case kUint << 8 | 64:
      return "L";
    case kFloat << 8 | 16:
      return "e";
    case kFloat << 8 | 32:
      return "f";
    case kFloat << 8 | 64:
      return "d";
    case kBool << 8 | 8:
      return "?";
    default:
      return nullptr;
  }
}

[[noreturn]] void RaiseBuffer(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

// What an export owns until its deleter runs.
template <typename Form>
struct Export {
  Form form = {};
  BatchRef batch;
  std::array<std::int64_t, 8> shape = {};
  std::array<std::int64_t, 8> strides = {};
  std::unique_ptr<void, void (*)(void*)> copy{nullptr, std::free};
};

template <typename Form>
void Delete(Form* form) {
  delete static_cast<Export<Form>*>(form->context);
}

template <typename Form>
constexpr const char* kCapsule = nullptr;
template <>
constexpr const char* kCapsule<dlpack::Legacy> = "dltensor";
template <>
constexpr const char* kCapsule<dlpack::Versioned> = "dltensor_versioned";

// A capsule that nobody took still owns its export; one that was taken has another name.
template <typename Form>
void DropCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kCapsule<Form>)) return;
  auto* form = static_cast<Form*>(PyCapsule_GetPointer(capsule, kCapsule<Form>));
  form->deleter(form);
}

template <typename Form>
nb::object MakeCapsule(const Tensor& tensor, bool copy) {
  const stoker_tensor& raw = tensor.raw();
  auto out = std::make_unique<Export<Form>>();
  void* data = raw.data;
  if (copy) {
    const std::size_t bytes = (raw.byte_size + 255) / 256 * 256;
    out->copy.reset(std::aligned_alloc(256, bytes == 0 ? 256 : bytes));
    if (!out->copy) throw std::bad_alloc();
    std::memcpy(out->copy.get(), raw.data, raw.byte_size);
    data = out->copy.get();
  } else {
    out->batch = tensor.batch();
  }
  std::memcpy(out->shape.data(), raw.shape, sizeof(std::int64_t) * raw.ndim);
  std::memcpy(out->strides.data(), tensor.strides(), sizeof(std::int64_t) * raw.ndim);
  out->form.array = {data,
                     {raw.device_type, raw.device_id},
                     raw.ndim,
                     {raw.dtype_code, raw.dtype_bits, 1},
                     out->shape.data(),
                     out->strides.data(),
                     0};
  out->form.context = out.get();
  out->form.deleter = Delete<Form>;
  if constexpr (std::is_same_v<Form, dlpack::Versioned>) {
    out->form.version = {1, 0};
    out->form.flags = copy ? dlpack::kCopied : raw.writable ? 0 : dlpack::kReadOnly;
  }
  PyObject* capsule = PyCapsule_New(&out->form, kCapsule<Form>, DropCapsule<Form>);
  if (capsule == nullptr) throw nb::python_error();
  out.release();
  return nb::steal(capsule);
}

int GetBufferSlot(PyObject* self, Py_buffer* view, int flags) {
  return nb::inst_ptr<Tensor>(self)->GetBuffer(self, view, flags);
}

}  // namespace

Tensor::Tensor(BatchRef batch, const stoker_tensor& tensor)
    : batch_(std::move(batch)), raw_(tensor) {
  std::int64_t elements = 1;
  for (int side = raw_.ndim - 1; side >= 0; --side) {
    strides_[side] = elements;
    byte_strides_[side] = elements * (raw_.dtype_bits / 8);
    elements *= raw_.shape[side];
  }
}

std::string Tensor::dtype() const {
  const std::string bits = std::to_string(raw_.dtype_bits);
  switch (raw_.dtype_code) {
    case kInt:
      return "int" + bits;
    case kUint:
      return "uint" + bits;
    case kFloat:
      return "float" + bits;
    case kBfloat:
      return "bfloat" + bits;
    default:
      return "bool";
  }
}

nb::tuple Tensor::shape() const {
  nb::list sides;
  for (int side = 0; side < raw_.ndim; ++side) sides.append(raw_.shape[side]);
  return nb::tuple(sides);
}

int Tensor::GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const char* refusal = nullptr;
  const char* format = Format(raw_);
  if (format == nullptr) refusal = "the buffer protocol has no bfloat16; use DLPack";
  if ((flags & PyBUF_WRITABLE) != 0 && !raw_.writable) {
    refusal = "a batch that others read too is read-only; copy it first";
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && raw_.ndim > 1) {
    refusal = "tensors are in C order";
  }
  if (refusal != nullptr) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, refusal);
    return -1;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  view->buf = raw_.data;
  view->len = static_cast<Py_ssize_t>(raw_.byte_size);
  view->itemsize = raw_.dtype_bits / 8;
  view->readonly = raw_.writable ? 0 : 1;
  view->ndim = raw_.ndim;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0
                    ? const_cast<Py_ssize_t*>(reinterpret_cast<const Py_ssize_t*>(raw_.shape))
                    : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? byte_strides_.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

nb::object Tensor::Dlpack(nb::object stream, nb::object max_version, nb::object device,
                          nb::object copy) const {
  if (!stream.is_none()) RaiseBuffer("tensors on the CPU have no stream");
  if (!device.is_none()) {
    const auto pair = nb::cast<std::pair<int, int>>(device);
    if (pair.first != raw_.device_type || pair.second != raw_.device_id) {
      RaiseBuffer("the tensor is on the CPU; move it after the import");
    }
  }
  const bool copied = !copy.is_none() && nb::cast<bool>(copy);
  const bool versioned =
      !max_version.is_none() && nb::cast<std::pair<int, int>>(max_version).first >= 1;
  if (versioned) return MakeCapsule<dlpack::Versioned>(*this, copied);
  // The older form cannot say that a store would be a fault.
  if (!copied && !raw_.writable) {
    RaiseBuffer("a read-only tensor needs DLPack 1.0 at the importer, or copy=True");
  }
  return MakeCapsule<dlpack::Legacy>(*this, copied);
}

nb::object Tensor::Lend() const { return MakeCapsule<dlpack::Legacy>(*this, false); }

void DefineTensor(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBufferSlot)},
                                {0, nullptr}};
  nb::class_<Tensor>(module, "Tensor", nb::type_slots(slots),
                     "One tensor of a batch: a buffer and a DLPack exporter, without a copy.\n\n"
                     "The batch's slot stays held while the tensor or anything made of it lives.")
      .def_prop_ro("name", &Tensor::name, "Name in the batch.")
      .def_prop_ro("dtype", &Tensor::dtype, "Name of the element type, such as 'float32'.")
      .def_prop_ro("shape", &Tensor::shape, "Sides, rows first.")
      .def_prop_ro(
          "nbytes", [](const Tensor& t) { return t.raw().byte_size; }, "Bytes of the elements.")
      .def_prop_ro(
          "writable", [](const Tensor& t) { return t.raw().writable != 0; },
          "Whether this process alone has the batch and may write it.")
      .def(
          "__dlpack_device__",
          [](const Tensor& t) { return nb::make_tuple(t.raw().device_type, t.raw().device_id); },
          "DLPack's device type and number.")
      .def("lend", &Tensor::Lend,
           "A capsule in DLPack's older form, which cannot say that a tensor is read-only.\n\n"
           "Where `writable` is false, a store to what is made of it is a fault.")
      .def("__dlpack__", &Tensor::Dlpack, nb::kw_only(), nb::arg("stream").none() = nb::none(),
           nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
           nb::arg("copy").none() = nb::none(),
           "A DLPack capsule: versioned where the importer asks for 1.0 or later.");
}

}  // namespace stoker::python
