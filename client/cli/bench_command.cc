// bench: how fast a stream comes, beside what the machine can do.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <latch>
#include <thread>

#include "client/cli/batch_reader.h"
#include "client/cli/ceilings.h"
#include "client/cli/common.h"
#include "client/cli/control_client.h"
#include "client/cli/daemon_watch.h"
#include "client/cli/meter.h"
#include "client/cli/target.h"
#include "daemon/io/manifest.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kForever = -1;
constexpr std::size_t kMostSamples = 5000;
constexpr std::int64_t kAsleepNs = 50000;  // a client that has waited so long sleeps
constexpr double kHandOverShare = 0.5;     // of the seconds asked for, and at most
constexpr double kHandOverSeconds = 2;

struct Settings {
  std::string target;
  std::uint32_t consumers = 1;
  double seconds = 5;
};

struct Ceilings {
  double memcpy = 0;
  double cold_crc = 0;
  double hot_crc = 0;
  double futex_round_trip = 0;
  std::optional<double> pread;
  std::optional<ParseRate> parse;
  std::string note;  // why one is absent
};

// What one consumer took in the measured time.
struct Taken {
  std::uint64_t rows = 0;
  std::uint64_t batches = 0;
  std::uint64_t bytes = 0;
  double waited = 0;
  std::vector<double> woken;  // seconds from hand-over to first touch, where it slept
  Status failed;
};

struct Measured {
  Taken sum;
  double seconds = 0;
  std::optional<double> daemon_cpu;
  std::optional<pid_t> daemon_pid;
  std::string daemon_note;
  std::uint64_t bytes_read = 0;
  std::vector<double> hand_over;  // seconds, sorted; of batches that lay ready
  std::vector<double> woken;      // likewise; of batches that were slept for
};

std::int64_t MonotonicNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

double Since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

example::Kind StoredKind(const v1::Tensor& tensor) {
  if (tensor.has_image() || tensor.has_decode_raw() || tensor.dtype() == v1::BYTES ||
      tensor.kind() == v1::KIND_BYTES) {
    return example::Kind::kBytes;
  }
  if (tensor.kind() == v1::KIND_INT64) return example::Kind::kInt64;
  const bool real = tensor.kind() == v1::KIND_FLOAT || tensor.dtype() == v1::FLOAT32;
  return real ? example::Kind::kFloat : example::Kind::kInt64;
}

Result<example::FeaturePlan> PlanOf(const v1::StreamSpec& spec) {
  std::vector<example::FeatureRequest> requests;
  for (const auto& tensor : spec.tensor()) {
    const bool variable = tensor.has_ragged() || tensor.has_padded();
    requests.push_back({tensor.feature().empty() ? tensor.name() : tensor.feature(),
                        StoredKind(tensor), variable, tensor.has_default_value()});
  }
  return example::FeaturePlan::Make(std::move(requests));
}

Ceilings MeasureCeilings(const v1::StreamSpec& spec) {
  Ceilings out;
  out.futex_round_trip = FutexRoundTrip();
  out.memcpy = MemcpyRate();
  out.cold_crc = ColdCrcRate();
  out.hot_crc = HotCrcRate();
  io::ManifestOptions find;
  for (const auto& source : spec.source()) {
    find.files.insert(find.files.end(), source.files().begin(), source.files().end());
  }
  auto manifest = io::BuildManifest(find);
  if (!manifest.ok()) {
    out.note = manifest.status().message();
    return out;
  }
  std::vector<std::string> paths;
  for (const auto& shard : manifest->shards) paths.push_back(shard.path);
  if (auto rate = PreadRate(paths); rate.ok()) {
    out.pread = *rate;
  } else {
    out.note = rate.status().message();
  }
  auto plan = PlanOf(spec);
  auto parse = plan.ok() ? ParseLoopRate(paths, *plan) : Result<ParseRate>(plan.status());
  if (parse.ok()) {
    out.parse = *parse;
  } else {
    out.note = parse.status().message();
  }
  return out;
}

// Looks at the first byte of each tensor, as a trainer's first touch does.
std::uint64_t Touch(const stoker_batch* batch, std::uint32_t tensors) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < tensors; ++i) {
    stoker_tensor tensor;
    if (stoker_batch_tensor(batch, i, &tensor) != STOKER_OK || tensor.byte_size == 0) continue;
    bytes += tensor.byte_size;
    (void)*static_cast<const volatile std::uint8_t*>(tensor.data);
  }
  return bytes;
}

// Takes one batch; false with kDeadlineExceeded, or a fault, in *failed.
bool TakeOne(stoker_stream* stream, std::int64_t timeout_ns, Taken* taken) {
  stoker_batch* raw = nullptr;
  stoker_code code = STOKER_OUT_OF_RANGE;
  const std::int64_t called = MonotonicNs();
  while (code == STOKER_OUT_OF_RANGE) code = stoker_next(stream, timeout_ns, &raw);
  if (code != STOKER_OK) {
    taken->failed = LastError(code);
    return false;
  }
  const BatchPtr batch(raw);
  stoker_batch_info info = {};
  info.struct_bytes = sizeof(info);
  stoker_batch_get_info(raw, &info);
  taken->bytes += Touch(raw, info.tensors);
  const auto published = static_cast<std::int64_t>(info.published_ns);
  if (published - called > kAsleepNs && taken->woken.size() < kMostSamples) {
    taken->woken.push_back(static_cast<double>(MonotonicNs() - published) / 1e9);
  }
  taken->rows += info.rows;
  ++taken->batches;
  return true;
}

double WaitedSeconds(stoker_stream* stream) {
  stoker_stream_info info = {};
  info.struct_bytes = sizeof(info);
  stoker_stream_get_info(stream, &info);
  return static_cast<double>(info.waited_ns) / 1e9;
}

Result<v1::GetStreamResponse> StatusOf(ControlClient* client, const std::string& name) {
  v1::GetStreamRequest request;
  request.set_name(name);
  v1::GetStreamResponse response;
  STOKER_TRY(client->Call(&v1::Control::Stub::GetStream, request, &response));
  return response;
}

// All consumers at once, for the time asked for.
Status Deliver(const Settings& settings, const std::vector<StreamPtr>& streams,
               const std::optional<DaemonWatch>& daemon, ControlClient* client,
               const std::string& name, Meter* meter, Measured* out) {
  std::vector<Taken> taken(streams.size());
  std::latch warm(static_cast<std::ptrdiff_t>(streams.size()));
  std::latch start(1);
  Clock::time_point end;
  const auto work = [&](std::size_t i) {
    pthread_setname_np(pthread_self(), "bench-consumer");
    stoker_stream* stream = streams[i].get();
    Taken warmed;
    const bool good = TakeOne(stream, kForever, &warmed);
    warm.count_down();
    start.wait();
    const double waited = WaitedSeconds(stream);
    taken[i].failed = warmed.failed;
    while (good) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now());
      if (left.count() <= 0) break;
      const std::uint64_t before = taken[i].bytes;
      if (!TakeOne(stream, left.count(), &taken[i])) break;
      meter->Add(taken[i].bytes - before);
    }
    taken[i].waited = WaitedSeconds(stream) - waited;
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < streams.size(); ++i) threads.emplace_back(work, i);
  warm.wait();
  auto before = StatusOf(client, name);
  auto cpu_before = daemon ? daemon->CpuSeconds() : Result<double>(Status(Code::kNotFound, ""));
  const auto began = Clock::now();
  end = began + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(settings.seconds));
  start.count_down();
  threads.clear();
  out->seconds = Since(began);
  auto cpu_after = daemon ? daemon->CpuSeconds() : Result<double>(Status(Code::kNotFound, ""));
  auto after = StatusOf(client, name);
  if (cpu_before.ok() && cpu_after.ok()) {
    out->daemon_cpu = *cpu_after - *cpu_before;
  }
  if (before.ok() && after.ok()) {
    out->bytes_read =
        after->stream().counters().bytes_read() - before->stream().counters().bytes_read();
  }
  for (const Taken& one : taken) {
    if (!one.failed.ok() && one.failed.code() != Code::kDeadlineExceeded) return one.failed;
    out->sum.rows += one.rows;
    out->sum.batches += one.batches;
    out->sum.bytes += one.bytes;
    out->sum.waited += one.waited;
    out->woken.insert(out->woken.end(), one.woken.begin(), one.woken.end());
  }
  std::sort(out->woken.begin(), out->woken.end());
  return Status();
}

// Batches that lie ready, taken one after the other: from the call to the first byte of each
// tensor.
Status HandOver(const Settings& settings, stoker_stream* stream, ControlClient* client,
                const std::string& name, std::vector<double>* samples) {
  const auto began = Clock::now();
  const double seconds = std::min(kHandOverSeconds, settings.seconds * kHandOverShare);
  while (samples->size() < kMostSamples && (Since(began) < seconds || samples->empty())) {
    auto status = StatusOf(client, name);
    if (!status.ok()) return status.status();
    std::uint32_t ready = 0;
    for (const auto& lane : status->stream().lane()) {
      if (lane.rank() != 0) continue;
      if (!lane.error().empty()) return Status(Code::kDataLoss, lane.error());
      const bool at_rest = lane.slots_filling() == 0 && lane.slots_free() == 0;
      if (at_rest) ready = lane.slots_ready();
    }
    for (; ready > 0; --ready) {
      Taken one;
      const auto called = Clock::now();
      stoker_batch* raw = nullptr;
      const stoker_code code = stoker_next(stream, kForever, &raw);
      if (code == STOKER_OUT_OF_RANGE) {
        ++ready;  // the end of an epoch is no batch
        continue;
      }
      if (code != STOKER_OK) return LastError(code);
      const BatchPtr batch(raw);
      stoker_batch_info info = {};
      info.struct_bytes = sizeof(info);
      stoker_batch_get_info(raw, &info);
      (void)Touch(raw, info.tensors);
      samples->push_back(Since(called));
    }
  }
  std::sort(samples->begin(), samples->end());
  return Status();
}

Result<Measured> Measure(const Globals& globals, const Settings& settings, const Target& copy) {
  Measured out;
  const bool broadcast = copy.spec->delivery().mode() == v1::Delivery::BROADCAST;
  std::vector<StreamPtr> streams;
  for (std::uint32_t i = 0; i < settings.consumers; ++i) {
    ReadOptions options;
    options.rank = broadcast ? 0 : i;
    options.world_size = broadcast ? 1 : settings.consumers;
    auto stream = Attach(globals, copy, options);
    if (!stream.ok()) return stream.status();
    streams.push_back(std::move(*stream));
  }
  std::optional<DaemonWatch> daemon;
  if (auto watch = DaemonWatch::Of(RuntimeDir(globals) + "/attach.sock"); watch.ok()) {
    daemon = *watch;
    out.daemon_pid = watch->pid();
  } else {
    out.daemon_note = watch.status().message();
  }
  ControlClient client(globals);
  {
    Meter meter(OnTerminal() && !globals.json, "bench", 0);
    STOKER_TRY(Deliver(settings, streams, daemon, &client, copy.name, &meter, &out));
  }
  streams.resize(1);
  STOKER_TRY(HandOver(settings, streams[0].get(), &client, copy.name, &out.hand_over));
  return out;
}

// The value that the share `q` of the samples does not exceed; 0 of none. REQUIRES: sorted.
double Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(q * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

std::string Short(double value, const char* unit) {
  static constexpr const char* kScales[] = {"", "k", "M", "G"};
  int scale = 0;
  for (; value >= 1000 && scale < 3; ++scale) value /= 1000;
  char text[48];
  std::snprintf(text, sizeof(text), "%.3g %s%s", value, kScales[scale], unit);
  return text;
}

std::string Micros(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f us", seconds * 1e6);
  return text;
}

Json Maybe(bool there, double value) { return there ? Json(value) : Json(nullptr); }

void PrintJson(const Settings& settings, const std::string& name, const Measured& m,
               const Ceilings& c) {
  const double rows = static_cast<double>(std::max<std::uint64_t>(m.sum.rows, 1));
  Json out;
  out["stream"] = name;
  out["consumers"] = settings.consumers;
  out["seconds"] = m.seconds;
  out["rows"] = m.sum.rows;
  out["batches"] = m.sum.batches;
  out["rows_per_second"] = static_cast<double>(m.sum.rows) / m.seconds;
  out["tensor_bytes_per_second"] = static_cast<double>(m.sum.bytes) / m.seconds;
  out["read_bytes_per_second"] = static_cast<double>(m.bytes_read) / m.seconds;
  out["wait_share"] = m.sum.waited / m.seconds / settings.consumers;
  out["handover_samples"] = m.hand_over.size();
  out["handover_p50_seconds"] = Quantile(m.hand_over, 0.5);
  out["handover_p99_seconds"] = Quantile(m.hand_over, 0.99);
  out["woken_samples"] = m.woken.size();
  out["woken_p50_seconds"] = Maybe(!m.woken.empty(), Quantile(m.woken, 0.5));
  out["woken_p99_seconds"] = Maybe(!m.woken.empty(), Quantile(m.woken, 0.99));
  out["daemon_pid"] = m.daemon_pid ? Json(*m.daemon_pid) : Json(nullptr);
  out["daemon_cpu_seconds"] = Maybe(m.daemon_cpu.has_value(), m.daemon_cpu.value_or(0));
  out["daemon_cpu_seconds_per_row"] =
      Maybe(m.daemon_cpu.has_value(), m.daemon_cpu.value_or(0) / rows);
  Json& ceilings = out["ceilings"];
  ceilings["memcpy_bytes_per_second"] = c.memcpy;
  ceilings["cold_crc_bytes_per_second"] = c.cold_crc;
  ceilings["hot_crc_bytes_per_second"] = c.hot_crc;
  ceilings["pread_bytes_per_second"] = Maybe(c.pread.has_value(), c.pread.value_or(0));
  const ParseRate parse = c.parse.value_or(ParseRate());
  ceilings["parse_records_per_second"] = Maybe(c.parse.has_value(), parse.records_per_second);
  ceilings["parse_bytes_per_second"] = Maybe(c.parse.has_value(), parse.bytes_per_second);
  ceilings["futex_round_trip_seconds"] = c.futex_round_trip;
  out["notes"] = Json::array();
  for (const auto& note : {m.daemon_note, c.note}) {
    if (!note.empty()) out["notes"].push_back(note);
  }
  std::printf("%s\n", out.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void PrintTable(const Settings& settings, const std::string& name, const Measured& m,
                const Ceilings& c) {
  const double rows = static_cast<double>(m.sum.rows);
  const double bytes = static_cast<double>(m.sum.bytes);
  std::printf("%s: %u consumers, %.2f s, %" PRIu64 " rows in %" PRIu64 " batches\n", name.c_str(),
              settings.consumers, m.seconds, m.sum.rows, m.sum.batches);
  Table table;
  table.Row({"MEASURED", "", "THE MACHINE ALONE, ONE CORE", ""});
  table.Row({"rows", Short(rows / m.seconds, "/s"), "bare parse loop",
             c.parse ? Short(c.parse->records_per_second, "/s") : "?"});
  table.Row(
      {"bytes in tensors", Short(bytes / m.seconds, "B/s"), "memcpy", Short(c.memcpy, "B/s")});
  table.Row({"bytes read", Short(static_cast<double>(m.bytes_read) / m.seconds, "B/s"),
             "bare pread, cached", c.pread ? Short(*c.pread, "B/s") : "?"});
  table.Row({"hand-over of a ready batch, median", Micros(Quantile(m.hand_over, 0.5)),
             "futex round trip", Micros(c.futex_round_trip)});
  table.Row({"hand-over, 99 of 100", Micros(Quantile(m.hand_over, 0.99)), "CRC32C, from memory",
             Short(c.cold_crc, "B/s")});
  if (!m.woken.empty()) {
    table.Row({"hand-over to a sleeper, median", Micros(Quantile(m.woken, 0.5))});
    table.Row({"hand-over to a sleeper, 99 of 100", Micros(Quantile(m.woken, 0.99))});
  }
  char wait[32];
  std::snprintf(wait, sizeof(wait), "%.1f %%", 100 * m.sum.waited / m.seconds / settings.consumers);
  table.Row({"time consumers waited", wait, "CRC32C, from the cache", Short(c.hot_crc, "B/s")});
  if (m.daemon_cpu) {
    table.Row({"daemon CPU a row", Micros(*m.daemon_cpu / std::max(rows, 1.0))});
    table.Row(
        {"rows a second of daemon CPU", *m.daemon_cpu > 0 ? Short(rows / *m.daemon_cpu, "") : "?"});
  }
  table.Print();
  for (const auto& note : {m.daemon_note, c.note}) {
    if (!note.empty()) std::printf("note: %s\n", note.c_str());
  }
}

int Run(const Globals& globals, const Settings& settings) {
  auto target = FindTarget(globals, settings.target);
  if (!target.ok()) return Fail(target.status());
  auto copy = PrivateCopy(globals, *target, "bench");
  if (!copy.ok()) return Fail(copy.status());
  if (copy->spec->delivery().mode() == v1::Delivery::BROADCAST) {
    copy->spec->mutable_delivery()->set_expect(settings.consumers);
  }
  const Ceilings ceilings = MeasureCeilings(*copy->spec);
  auto measured = Measure(globals, settings, *copy);
  CloseCopy(globals, *copy);
  if (!measured.ok()) return Fail(measured.status());
  if (globals.json) {
    PrintJson(settings, target->name, *measured, ceilings);
  } else {
    PrintTable(settings, target->name, *measured, ceilings);
  }
  return kDone;
}

}  // namespace

void AddBenchCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* bench = app->add_subcommand("bench", "how fast a stream comes, beside the machine's own");
  auto settings = std::make_shared<Settings>();
  bench->add_option("STREAM", settings->target, "a stream's name, or a spec file")->required();
  bench->add_option("--consumers", settings->consumers, "ranks, or consumers of a BROADCAST stream")
      ->check(CLI::Range(1, 64));
  bench->add_option("--seconds", settings->seconds, "to measure for")
      ->check(CLI::Range(0.01, 86400.0));
  bench->callback([=] { *exit_code = Run(*globals, *settings); });
}

}  // namespace stoker::cli
