// The extension: what stoker's Python classes stand on.
#include <nanobind/nanobind.h>

#include <exception>

#include "client/python/src/failure.h"
#include "client/python/src/gil.h"
#include "client/python/src/stream.h"
#include "client/python/src/tensor.h"

namespace {

namespace nb = nanobind;

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const stoker::python::Failure& failure) {
    const nb::object error =
        nb::module_::import_("stoker._errors")
            .attr("make")(static_cast<int>(failure.code), nb::str(failure.text.c_str()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  }
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "libstoker for Python. Use the package stoker.";
  // Views may live in a trainer's globals until the process ends: that is not a leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(Translate);
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function(&stoker::python::GilReleased::Leave));
  stoker::python::DefineTensor(m);
  stoker::python::DefineStream(m);
}
