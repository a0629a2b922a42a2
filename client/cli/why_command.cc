// why: looks at a stream twice and says whether trainer, workers or storage is the limit.
#include "client/cli/why_command.h"

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/control_client.h"
#include "client/cli/daemon_watch.h"
#include "client/cli/verdict.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Look {
  v1::StreamStatus stream;
  double cpu_seconds = 0;
  Clock::time_point at;
};

Result<Look> Observe(ControlClient* client, const std::string& name, const DaemonWatch& watch) {
  v1::GetStreamRequest request;
  request.set_name(name);
  v1::GetStreamResponse response;
  STOKER_TRY(client->Call(&v1::Control::Stub::GetStream, request, &response));
  const auto cpu = watch.CpuSeconds();
  if (!cpu.ok()) return cpu.status();
  return Look{std::move(*response.mutable_stream()), *cpu, Clock::now()};
}

int Why(const Globals& globals, const std::string& name, double seconds) {
  ControlClient client(globals);
  v1::GetDaemonResponse daemon;
  if (const Status status =
          client.Call(&v1::Control::Stub::GetDaemon, v1::GetDaemonRequest(), &daemon);
      !status.ok()) {
    return Fail(status);
  }
  const DaemonWatch watch = DaemonWatch::OfPid(static_cast<pid_t>(daemon.pid()));
  const auto before = Observe(&client, name, watch);
  if (!before.ok()) return Fail(before.status());
  poll(nullptr, 0, static_cast<int>(seconds * 1000));
  const auto after = Observe(&client, name, watch);
  if (!after.ok()) return Fail(after.status());
  const double took = std::chrono::duration<double>(after->at - before->at).count();
  const Observed observed = Compare(before->stream, after->stream, took,
                                    after->cpu_seconds - before->cpu_seconds, daemon.workers());
  if (globals.json) {
    Json json;
    json["limit"] = LimitName(Judge(observed));
    json["sentence"] = Sentence(observed);
    json["seconds"] = observed.seconds;
    json["consumer_wait_share"] = observed.wait_share;
    json["producer_blocked_share"] = observed.full_share;
    json["cpu_share"] = observed.cpu_share;
    json["rows_per_second"] = observed.rows_per_second;
    json["bytes_per_second"] = observed.bytes_per_second;
    std::printf("%s\n", json.dump().c_str());
    return kDone;
  }
  std::printf("%s\n%.0f rows/s delivered, %s/s read, over %.1f s\n", Sentence(observed).c_str(),
              observed.rows_per_second,
              Bytes(static_cast<std::uint64_t>(observed.bytes_per_second)).c_str(),
              observed.seconds);
  return kDone;
}

}  // namespace

void AddWhyCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* why = app->add_subcommand("why", "who waits for whom: trainer, workers or storage");
  auto name = std::make_shared<std::string>();
  auto seconds = std::make_shared<double>(5);
  why->add_option("NAME", *name, "the stream")->required();
  why->add_option("--seconds", *seconds, "how long to look")->check(CLI::Range(0.1, 3600.0));
  why->callback([=] { *exit_code = Why(*globals, *name, *seconds); });
}

}  // namespace stoker::cli
