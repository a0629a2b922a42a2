// No mode allocates for a record, loose ones included, once its buffers have grown.
#include <cstdlib>
#include <new>

#include "daemon/example/example_parser.h"
#include "tests/support/catch.h"
#include "tests/support/records.h"

namespace {
std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace stoker::example {
namespace {

TEST_CASE("a record costs no allocation in any mode", "[example]") {
  auto plan =
      FeaturePlan::Make({{"a", Kind::kInt64, true, false}, {"b", Kind::kBytes, true, false}});
  const std::string strings = test::Strings({std::string(50, 'x'), "y"});
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::string ints = test::Ints({i, 1000 * i, -i});
    const std::vector<std::int64_t> many(static_cast<std::size_t>(i), i);
    records.push_back(test::Example({{"a", ints}, {"b", strings}}));
    records.push_back(test::Example({{"a", ints + test::Ints(many)}, {"b", strings + strings}}));
  }
  for (const Mode mode : {Mode::kStrict, Mode::kTensorFlow, Mode::kProtobuf}) {
    ExampleParser parser(&*plan, mode);
    ParseCounters counters;
    std::string detail;
    std::size_t in_last_pass = 0;
    // STRICT refuses every second record, and a refusal has words.
    const std::size_t stride = mode == Mode::kStrict ? 2 : 1;
    for (int pass = 0; pass < 20; ++pass) {
      const std::size_t before = allocations;
      bool good = true;
      for (std::size_t i = 0; i < records.size(); i += stride) {
        FeatureSpan spans[2];
        good = good && parser.Parse(std::as_bytes(std::span(records[i])), spans, &counters,
                                    &detail) == FaultClass::kNone;
      }
      in_last_pass = allocations - before;
      REQUIRE(good);
    }
    CHECK(in_last_pass == 0);
    CHECK(counters.ambiguous == (mode == Mode::kStrict ? 0u : 20u * 64u));
  }
}

}  // namespace
}  // namespace stoker::example
