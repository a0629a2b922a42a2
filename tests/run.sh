#!/usr/bin/env bash
# Installs, builds and runs every test: all of them in release and asan, those labelled `threads`
# in tsan; the Python package and its tests go with release. Tests labelled `long` are left out. Ends with ctest's own summary.
#
# Then the fuzz targets run for twenty seconds each (clang; where it can be installed).
#
#   tests/run.sh [--preset release|asan|tsan|fuzz]     one preset alone
#
# STOKER_TEST_DATA names the shared test data (default: ../shared/data beside the project).
set -euo pipefail
cd "$(dirname "$0")/.."

presets=(tsan fuzz asan release)
if [ "${1:-}" = --preset ] && [ $# -eq 2 ]; then
  presets=("$2")
elif [ $# -ne 0 ]; then
  echo "usage: $0 [--preset NAME]" >&2
  exit 2
fi

deploy/install-deps.sh --clang
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/support/tsan.supp

# The Python package in an environment of its own, with what its tests need. Quick when it is there.
install_wheel() {
  [ -x build/venv/bin/python ] || python3 -m venv build/venv
  build/venv/bin/pip install -q 'scikit-build-core>=0.10' 'nanobind>=2.4' numpy
  build/venv/bin/pip install -q --no-build-isolation --no-deps ./client/python
}

for preset in "${presets[@]}"; do
  began=$SECONDS
  echo "== $preset: configure and build"
  mkdir -p build
  log=build/run-$preset.log
  # The quickstart leaves the tests out of the same folder.
  options=(-DSTOKER_BUILD_TESTS=ON)
  if [ "$preset" = release ]; then
    install_wheel > "$log" 2>&1 || { cat "$log"; exit 1; }
    options+=(-DSTOKER_PYTHON="$PWD/build/venv/bin/python")
  fi
  cmake --preset "$preset" "${options[@]}" > "$log" 2>&1 || { cat "$log"; exit 1; }
  target=all
  [ "$preset" = tsan ] && target=stoker_threads_tests
  [ "$preset" = fuzz ] && target=stoker_fuzzers
  cmake --build "build/$preset" -j "$jobs" --target "$target" > "$log" 2>&1 || { cat "$log"; exit 1; }
  built=$SECONDS
  echo "== $preset: built in $((built - began)) s; tests"
  select=(-LE long)
  [ "$preset" = tsan ] && select=(-L threads -LE long)
  [ "$preset" = fuzz ] && select=(-L fuzz)
  ctest --test-dir "build/$preset" -j "$jobs" --schedule-random "${select[@]}" --no-tests=error
  # The last preset's closing lines are ctest's own, with its time.
  [ "$preset" = "${presets[-1]}" ] || echo "== $preset: tests took $((SECONDS - built)) s"
done
