// What reading costs a record, from memory, on one core: each step alone and all of them, beside
// what the machine does without us. Records are 32 floats and a label, 174 bytes.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "client/cli/ceilings.h"
#include "client/cli/example_writer.h"
#include "daemon/example/example_parser.h"
#include "daemon/io/record_reader.h"
#include "daemon/io/record_writer.h"
#include "daemon/plan/permutation.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace stoker;

constexpr std::uint64_t kRecords = 400000;
constexpr std::uint32_t kRun = 256;
constexpr std::size_t kFloats = 32;

[[noreturn]] void Die(const Status& status) {
  std::fprintf(stderr, "bench_reading: %s\n", status.message().c_str());
  std::exit(1);
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) Die(result.status());
  return std::move(*result);
}

// One shard on disk, and the plan that reads it.
struct Data {
  Data() : path(folder / "shard") {
    auto writer = Must(io::RecordWriter::Create(path, io::Compression::kPlain));
    std::vector<float> x(kFloats);
    cli::ExampleWriter example;
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      std::iota(x.begin(), x.end(), static_cast<float>(i));
      const std::int64_t label[] = {static_cast<std::int64_t>(i % 100)};
      example.Int64("label", label);
      example.Float("x", x);
      const std::string record = example.Take();
      if (const Status status = writer.Append(std::as_bytes(std::span(record))); !status.ok()) {
        Die(status);
      }
    }
    if (const Status status = writer.Close(); !status.ok()) Die(status);
    io::ManifestOptions options;
    options.files = {path};
    file = Must(io::BuildManifest(options)).shards.at(0);
    const auto source = Must(io::FileSource::Open(path, ""));
    index = Must(io::BuildIndex(source, file.identity.size, file.compression, path, {}));
  }

  std::shared_ptr<io::Shard> Open(io::Holding holding) const {
    io::ShardOptions options;
    options.holding = holding;
    return Must(io::Shard::Open(file, index, options));
  }

  test::TempDir folder;
  std::string path;
  io::ShardFile file;
  std::shared_ptr<const io::ShardIndex> index;
  example::FeaturePlan plan = Must(
      example::FeaturePlan::Make({{"x", example::Kind::kFloat}, {"label", example::Kind::kInt64}}));
};

const Data& TheData() {
  static const Data data;
  return data;
}

void PerRecord(benchmark::State& state, std::uint64_t records) {
  state.SetItemsProcessed(static_cast<std::int64_t>(records));
}

// Framing and both checksums.
void Read(benchmark::State& state, io::Holding holding, bool parse) {
  const Data& data = TheData();
  const auto shard = data.Open(holding);
  io::RecordBlock block;
  example::ExampleParser parser(&data.plan);
  std::vector<example::FeatureSpan> found(data.plan.size());
  std::vector<float> x(kFloats);
  std::int64_t label = 0;
  example::ParseCounters counters;
  std::string detail;
  std::uint64_t records = 0;
  for (auto _ : state) {
    for (std::uint64_t first = 0; first + kRun <= kRecords; first += kRun) {
      block.Clear();
      shard->Read(first, kRun, &block);
      for (const auto& record : block.records()) {
        if (record.fault != FaultClass::kNone) std::abort();
        if (!parse) continue;
        if (parser.Parse(record.payload, found, &counters, &detail) != FaultClass::kNone) {
          std::abort();
        }
        example::CopyFloat(found[0], x.data());
        example::CopyInt64(found[1], &label);
        benchmark::DoNotOptimize(label);
      }
      records += kRun;
    }
  }
  PerRecord(state, records);
}

void Permute(benchmark::State& state) {
  const std::uint64_t n = std::uint64_t{1} << state.range(0);
  const plan::Permutation order(n, RowRandom(7, -1, 0, 0));
  std::vector<std::int64_t> out(kRun);
  std::uint64_t runs = 0;
  for (auto _ : state) {
    order.Run(runs++ * kRun % n, out);
    benchmark::DoNotOptimize(out.data());
  }
  PerRecord(state, runs * kRun);
}

void Index(benchmark::State& state) {
  const Data& data = TheData();
  const auto source = Must(io::FileSource::Open(data.path, ""));
  std::uint64_t records = 0;
  for (auto _ : state) {
    records +=
        Must(io::BuildIndex(source, data.file.identity.size, data.file.compression, data.path, {}))
            ->records();
  }
  PerRecord(state, records);
}

void Machine() {
  std::printf("the machine alone: memcpy %.1f GB/s, CRC32C %.1f GB/s from memory, %.1f from cache",
              cli::MemcpyRate() / 1e9, cli::ColdCrcRate() / 1e9, cli::HotCrcRate() / 1e9);
  const auto parse = Must(cli::ParseLoopRate({TheData().path}, TheData().plan));
  std::printf("; bare parse loop %.1f million records/s\n", parse.records_per_second / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto add = [](const char* name, io::Holding holding, bool parse) {
    benchmark::RegisterBenchmark(name, Read, holding, parse)->Unit(benchmark::kMillisecond);
  };
  add("framing and checksums, resident", io::Holding::kResident, false);
  add("framing, checksums and parsing, resident", io::Holding::kResident, true);
  add("framing and checksums, pread of the page cache", io::Holding::kDirect, false);
  add("framing, checksums and parsing, pread of the page cache", io::Holding::kDirect, true);
  benchmark::RegisterBenchmark("index", Index)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("permutation of 2^", Permute)->Arg(20)->Arg(40);
  Machine();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
