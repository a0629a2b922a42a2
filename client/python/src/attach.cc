#include "client/python/src/attach.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "client/python/src/failure.h"
#include "client/python/src/gil.h"

namespace stoker::python {
namespace {

namespace nb = nanobind;

// Shared by the caller and the thread that attaches; whichever leaves last frees it.
struct Attempt {
  AttachText text;
  stoker_attach_options options;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool abandoned = false;
  stoker_code code = STOKER_INTERNAL;
  std::string error;
  stoker_stream* stream = nullptr;
};

void Run(const std::shared_ptr<Attempt>& attempt) {
  stoker_stream* stream = nullptr;
  const stoker_code code = stoker_attach(&attempt->options, &stream);
  const std::lock_guard lock(attempt->mutex);
  attempt->code = code;
  if (code != STOKER_OK) attempt->error = stoker_last_error();
  attempt->stream = stream;
  attempt->done = true;
  if (attempt->abandoned) stoker_stream_close(stream);
  attempt->changed.notify_all();
}

// Python's signals belong to its main thread.
void Start(const std::shared_ptr<Attempt>& attempt) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::string error;
  try {
    std::thread(Run, attempt).detach();
  } catch (const std::system_error& e) {
    error = e.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!error.empty()) throw Failure{STOKER_RESOURCE_EXHAUSTED, "no thread to attach: " + error};
}

bool WaitSlice(Attempt& attempt) {
  const GilReleased released;
  std::unique_lock lock(attempt.mutex);
  return attempt.changed.wait_for(lock, std::chrono::milliseconds(100),
                                  [&] { return attempt.done; });
}

void Abandon(Attempt& attempt) {
  const std::lock_guard lock(attempt.mutex);
  attempt.abandoned = true;
  if (attempt.done) stoker_stream_close(attempt.stream);
}

}  // namespace

stoker_stream* Attach(AttachText text, stoker_attach_options options) {
  auto attempt = std::make_shared<Attempt>();
  attempt->text = std::move(text);
  const auto c_string = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
  options.socket_path = c_string(attempt->text.socket_path);
  options.stream_name = c_string(attempt->text.stream_name);
  options.spec_text = c_string(attempt->text.spec_text);
  options.token = c_string(attempt->text.token);
  attempt->options = options;
  Start(attempt);
  while (!WaitSlice(*attempt)) {
    if (PyErr_CheckSignals() != 0) {
      Abandon(*attempt);
      throw nb::python_error();
    }
  }
  if (attempt->code != STOKER_OK) throw Failure{attempt->code, attempt->error};
  return attempt->stream;
}

}  // namespace stoker::python
