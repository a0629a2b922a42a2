// No allocation per record and none per batch: a counting hook over a million rows.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/catch.h"
#include "tests/support/local_daemon.h"
#include "tests/support/records.h"

namespace {

std::atomic<std::uint64_t> g_allocations{0};

void* Count(std::size_t bytes) {
  ++g_allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return Count(bytes); }
void* operator new[](std::size_t bytes) { return Count(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace stoker {
namespace {

TEST_CASE("a million rows cost no allocation each", "[stream]") {
  test::LocalDaemon daemon(2);
  std::string part;
  for (int i = 0; i < 5000; ++i) {
    part += test::Frame(test::Example({{"x", test::Floats({0.25f, 0.5f})},
                                       {"label", test::Ints({i})},
                                       {"t", test::Ints({1, 2, 3})}}));
  }
  std::string file;
  for (int i = 0; i < 260; ++i) file += part;  // 1.3 million records: the count stays in one epoch
  test::WriteFile(daemon.temp() / "part", file);
  const std::string spec = "name: \"a\" source { files: \"" + (daemon.temp() / "part") +
                           "\" } tensor { name: \"x\" dtype: FLOAT32 shape: 2 } "
                           "tensor { name: \"label\" dtype: INT64 } "
                           "tensor { name: \"t\" dtype: INT64 ragged {} } batch { size: 500 }";
  stoker_stream* stream = daemon.Attach(spec);
  INFO(stoker_last_error());
  REQUIRE(stream != nullptr);
  std::uint64_t rows = 0;
  const auto take = [&](std::uint64_t wanted) {
    while (rows < wanted) {
      stoker_batch* batch = nullptr;
      const stoker_code code = stoker_next(stream, 60'000'000'000, &batch);
      if (code == STOKER_OUT_OF_RANGE) continue;
      REQUIRE(code == STOKER_OK);
      stoker_batch_release(batch);
      rows += 500;
    }
  };
  take(200000);  // buffers grow to their size
  const std::uint64_t before = g_allocations;
  take(1200000);
  CHECK(g_allocations - before == 0);
  stoker_stream_close(stream);
}

}  // namespace
}  // namespace stoker
