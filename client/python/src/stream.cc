#include "client/python/src/stream.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <utility>

#include "client/python/src/attach.h"
#include "client/python/src/failure.h"
#include "client/python/src/gil.h"

namespace stoker::python {
namespace {

namespace nb = nanobind;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSlice(100);
// Slots may still come back for so long from another thread; the C client's own patience.
constexpr std::chrono::seconds kTooManyHeld(1);

void CheckSignals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::int64_t Nanoseconds(double seconds) {
  return seconds < 0 || seconds > 9e9 ? -1 : static_cast<std::int64_t>(seconds * 1e9);
}

}  // namespace

stoker_batch* Batch::Held() const {
  if (batch_.get() == nullptr) {
    throw Failure{STOKER_FAILED_PRECONDITION, "the batch was released"};
  }
  return batch_.get();
}

Tensor Batch::Find(const std::string& name) const {
  stoker_tensor tensor;
  const stoker_code code = stoker_batch_find(Held(), name.c_str(), &tensor);
  if (code == STOKER_NOT_FOUND) {
    const std::string there = nb::cast<std::string>(nb::str(", ").attr("join")(Names()));
    throw nb::key_error((name + ": the batch has " + there).c_str());
  }
  Check(code);
  return Tensor(batch_, tensor);
}

bool Batch::Has(const std::string& name) const {
  stoker_tensor tensor;
  return stoker_batch_find(Held(), name.c_str(), &tensor) == STOKER_OK;
}

nb::list Batch::Names() const {
  nb::list names;
  const std::uint32_t n = Info().tensors;
  for (std::uint32_t i = 0; i < n; ++i) {
    stoker_tensor tensor;
    Check(stoker_batch_tensor(Held(), i, &tensor));
    names.append(nb::str(tensor.name, tensor.name_bytes));
  }
  return names;
}

stoker_batch_info Batch::Info() const {
  stoker_batch_info info = {};
  info.struct_bytes = sizeof(info);
  Check(stoker_batch_get_info(Held(), &info));
  return info;
}

std::string Batch::Token() const {
  char text[STOKER_TOKEN_MAX];
  Check(stoker_batch_token(Held(), text, sizeof(text)));
  return text;
}

std::unique_lock<std::timed_mutex> Stream::Turn() {
  if (owner_ != getpid()) {
    throw Failure{STOKER_FAILED_PRECONDITION,
                  "this stream was attached before the fork; attach anew in the child"};
  }
  std::unique_lock lock(turn_, std::try_to_lock);
  while (!lock.owns_lock()) {
    {
      const GilReleased released;
      static_cast<void>(lock.try_lock_for(kSlice));
    }
    if (!lock.owns_lock()) {
      CheckSignals();
      if (GilReleased::Leaving()) {
        throw Failure{STOKER_FAILED_PRECONDITION, "the interpreter is ending"};
      }
    }
  }
  if (closing_) throw Failure{STOKER_FAILED_PRECONDITION, "the stream is closed"};
  return lock;
}

std::optional<Batch> Stream::Next(double timeout_seconds) {
  const auto turn = Turn();
  stoker_batch* batch = nullptr;
  // A batch that is ready costs no switch of threads.
  stoker_code code = stoker_next(stream_, 0, &batch);
  const std::int64_t timeout_ns = Nanoseconds(timeout_seconds);
  const auto began = Clock::now();
  while (code == STOKER_DEADLINE_EXCEEDED || code == STOKER_RESOURCE_EXHAUSTED) {
    const auto waited = Clock::now() - began;
    if (code == STOKER_RESOURCE_EXHAUSTED && waited >= kTooManyHeld) break;
    std::chrono::nanoseconds slice = kSlice;
    if (timeout_ns >= 0) {
      const auto left = std::chrono::nanoseconds(timeout_ns) - waited;
      if (left <= std::chrono::nanoseconds(0)) break;
      if (left < slice) slice = left;
    }
    const auto slice_began = Clock::now();
    {
      const GilReleased released;
      code = stoker_next(stream_, slice.count(), &batch);
    }
    if (code == STOKER_OK) break;
    CheckSignals();
    if (closing_) throw Failure{STOKER_FAILED_PRECONDITION, "the stream was closed"};
    // A limit of the daemon's is final and said at once; our own full hands are said after the
    // wait.
    if (code == STOKER_RESOURCE_EXHAUSTED && Clock::now() - slice_began < slice) break;
  }
  if (code == STOKER_OUT_OF_RANGE) return std::nullopt;
  Check(code);
  return Batch(BatchRef(batch));
}

stoker_stream_info Stream::RawInfo() {
  const auto turn = Turn();
  stoker_stream_info info = {};
  info.struct_bytes = sizeof(info);
  Check(stoker_stream_get_info(stream_, &info));
  return info;
}

nb::dict Stream::Info() {
  const stoker_stream_info info = RawInfo();
  nb::dict out;
  out["name"] = info.name;
  out["rank"] = info.rank;
  out["world_size"] = info.world_size;
  out["slots"] = info.slots;
  out["exclusive"] = info.exclusive != 0;
  out["ended"] = info.ended != 0;
  out["steps_per_epoch"] = info.steps_per_epoch;
  out["rows_per_epoch"] = info.rows_per_epoch;
  out["repeat"] = info.repeat;
  out["seed"] = info.seed;
  out["plan_id"] = info.plan_id;
  out["epoch"] = info.epoch;
  out["row"] = info.row;
  out["waited_ns"] = info.waited_ns;
  out["batches"] = info.batches;
  out["reconnects"] = info.reconnects;
  out["rows"] = info.rows;
  out["ready"] = info.ready;
  return out;
}

std::string Stream::Token() {
  const auto turn = Turn();
  char text[STOKER_TOKEN_MAX];
  Check(stoker_stream_token(stream_, text, sizeof(text)));
  return text;
}

void Stream::Close() {
  if (closing_.exchange(true)) return;
  // The child's copy shares no lock and no attachment with its parent.
  std::unique_lock<std::timed_mutex> lock(turn_, std::defer_lock);
  if (owner_ == getpid()) {
    const GilReleased released;
    while (!lock.try_lock_for(kSlice)) {
      if (GilReleased::Leaving()) return;  // the process's end closes it
    }
  }
  stoker_stream_close(std::exchange(stream_, nullptr));
}

void DefineStream(nb::module_& m) {
  nb::class_<Batch>(m, "Batch")
      .def("find", &Batch::Find)
      .def("has", &Batch::Has)
      .def("names", &Batch::Names)
      .def("token", &Batch::Token)
      .def("release", &Batch::Release)
      .def_prop_ro("released", &Batch::released)
      .def_prop_ro("rows", [](const Batch& b) { return b.Info().rows; })
      .def_prop_ro("real_rows", [](const Batch& b) { return b.Info().real_rows; })
      .def_prop_ro("capacity_rows", [](const Batch& b) { return b.Info().capacity_rows; })
      .def_prop_ro("skipped_rows", [](const Batch& b) { return b.Info().skipped_rows; })
      .def_prop_ro("epoch", [](const Batch& b) { return b.Info().epoch; })
      .def_prop_ro("step", [](const Batch& b) { return b.Info().step; })
      .def_prop_ro("first_row", [](const Batch& b) { return b.Info().first_row; });

  nb::class_<Stream>(m, "Stream")
      .def("next", &Stream::Next, nb::arg("timeout"))
      .def("info", &Stream::Info)
      .def_prop_ro("epoch", [](Stream& s) { return s.RawInfo().epoch; })
      .def_prop_ro("reconnects", [](Stream& s) { return s.RawInfo().reconnects; })
      .def("token", &Stream::Token)
      .def("close", &Stream::Close)
      .def_prop_ro("closed", &Stream::closed);

  m.def(
      "attach",
      [](std::string socket, std::string name, std::string spec, std::string token,
         std::uint32_t rank, std::uint32_t world_size, std::uint32_t local_world_size,
         std::uint32_t flags, int start, double timeout, double reconnect_timeout) {
        stoker_attach_options options = {};
        options.struct_bytes = sizeof(options);
        options.rank = rank;
        options.world_size = world_size;
        options.local_world_size = local_world_size;
        options.flags = flags;
        options.start = static_cast<stoker_start>(start);
        options.timeout_ns = Nanoseconds(timeout);
        // The C ABI calls the default 0; here 0 means not to wait.
        options.reconnect_timeout_ns = reconnect_timeout <= 0 ? -1 : Nanoseconds(reconnect_timeout);
        return new Stream(Attach(
            {std::move(socket), std::move(name), std::move(spec), std::move(token)}, options));
      },
      nb::arg("socket"), nb::arg("name"), nb::arg("spec"), nb::arg("token"), nb::arg("rank"),
      nb::arg("world_size"), nb::arg("local_world_size"), nb::arg("flags"), nb::arg("start"),
      nb::arg("timeout"), nb::arg("reconnect_timeout"));
}

}  // namespace stoker::python
