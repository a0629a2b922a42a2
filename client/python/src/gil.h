// GilReleased: a scope without the GIL, out of which no thread comes while the interpreter ends.
//
// A daemon thread that asks for the GIL of an interpreter that is being finalised is ended by
// pthread_exit (before 3.14), which unwinds through C++ frames that cannot be unwound so: the
// process aborts. So an exit hook calls Leave(), and from then on every other thread sleeps at the
// end of its scope until the process is gone; what it holds stays held.
//
// Thread-safety: all of it. Blocking: the destructor, for the GIL; Leave(), until threads that
//   already ask for the GIL have it. Errors: none.
#pragma once

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace stoker::python {

class GilReleased {
 public:
  // REQUIRES: the GIL.
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    // Of this count and Leave's flag, the later one sees the earlier.
    asking_.fetch_add(1);
    if (leaving_.load() && !pthread_equal(pthread_self(), last_)) {
      asking_.fetch_sub(1);
      while (true) pause();
    }
    PyEval_RestoreThread(state_);
    asking_.fetch_sub(1);
  }

  // Called once, by the thread that ends the interpreter. REQUIRES: the GIL.
  static void Leave() {
    last_ = pthread_self();
    leaving_.store(true);
    PyThreadState* state = PyEval_SaveThread();
    // A fork may have inherited the count of threads that it does not have.
    while (getpid() == counted_ && asking_.load() != 0) usleep(100);
    PyEval_RestoreThread(state);
  }

  // A lock that another thread holds by now may never be given back.
  static bool Leaving() { return leaving_.load(); }

 private:
  inline static std::atomic<int> asking_{0};  // threads between the wish for the GIL and having it
  inline static std::atomic<bool> leaving_{false};
  inline static pthread_t last_ = {};
  inline static const pid_t counted_ = getpid();

  PyThreadState* const state_;
};

}  // namespace stoker::python
