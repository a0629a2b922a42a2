// open, close, list, status, explain: over the control service.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "client/cli/common.h"
#include "client/cli/control_client.h"
#include "config/spec.h"

namespace stoker::cli {
namespace {

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  std::printf("%s", text.c_str());
}

std::string Number(std::uint64_t value) { return std::to_string(value); }

std::string Shape(const v1::TensorInfo& tensor) {
  std::string text = "(";
  for (int i = 0; i < tensor.shape_size(); ++i) {
    text += (i > 0 ? ", " : "") +
            (tensor.shape(i) < 0 ? std::string("?") : std::to_string(tensor.shape(i)));
  }
  return text + ")";
}

int Open(const Globals& globals, const std::string& path) {
  auto spec = LoadSpec(path);
  if (!spec.ok()) return Fail(spec.status());
  v1::OpenStreamRequest request;
  *request.mutable_spec() = *spec;
  v1::OpenStreamResponse response;
  ControlClient client(globals);
  if (const Status status = client.Call(&v1::Control::Stub::OpenStream, request, &response);
      !status.ok()) {
    return Fail(status);
  }
  if (globals.json) {
    PrintJson(response);
    return kDone;
  }
  const auto& stream = response.stream();
  std::printf("%s %s: %s rows an epoch from %s shards, seed %" PRIu64 "%s\n", stream.name().c_str(),
              response.created() ? "opened" : "runs already",
              Number(stream.rows_per_epoch()).c_str(), Number(stream.shards()).c_str(),
              stream.seed(), stream.seed_drawn() ? " (drawn)" : "");
  return kDone;
}

int Close(const Globals& globals, const std::string& name) {
  v1::CloseStreamRequest request;
  request.set_name(name);
  v1::CloseStreamResponse response;
  ControlClient client(globals);
  const Status status = client.Call(&v1::Control::Stub::CloseStream, request, &response);
  if (!status.ok()) return Fail(status);
  if (globals.json) {
    PrintJson(response);
  } else {
    std::printf("%s closed\n", name.c_str());
  }
  return kDone;
}

int List(const Globals& globals) {
  ControlClient client(globals);
  v1::ListStreamsResponse all;
  v1::ListStreamsRequest request;
  while (true) {
    v1::ListStreamsResponse page;
    if (const Status status = client.Call(&v1::Control::Stub::ListStreams, request, &page);
        !status.ok()) {
      return Fail(status);
    }
    all.mutable_stream()->MergeFrom(page.stream());
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
  }
  if (globals.json) {
    PrintJson(all);
    return kDone;
  }
  Table table;
  table.Row({"NAME", "STATE", "ROWS/EPOCH", "LANES", "ROWS DELIVERED", "BAD"});
  for (const auto& stream : all.stream()) {
    table.Row({stream.name(), v1::StreamStatus::State_Name(stream.state()),
               Number(stream.rows_per_epoch()),
               Number(static_cast<std::uint64_t>(stream.lane_size())),
               Number(stream.counters().rows()), Number(stream.counters().bad_records())});
  }
  table.Print();
  return kDone;
}

void PrintStatus(const v1::StreamStatus& stream) {
  Table facts;
  facts.Row({"state", v1::StreamStatus::State_Name(stream.state()) +
                          (stream.error().empty() ? "" : ": " + stream.error())});
  facts.Row({"seed", Number(stream.seed()) + (stream.seed_drawn() ? " (drawn)" : "")});
  facts.Row({"data", Number(stream.records()) + " records in " + Number(stream.shards()) +
                         " shards, " + Number(stream.empty_shards()) + " of them empty"});
  facts.Row({"epoch", Number(stream.rows_per_epoch()) + " rows, " +
                          Number(stream.steps_per_epoch()) + " steps, " +
                          Number(stream.dropped_rows_per_epoch()) + " rows dropped"});
  facts.Row({"memory",
             Bytes(stream.arena_bytes()) + " arenas, " + Bytes(stream.index_bytes()) + " index"});
  const auto& c = stream.counters();
  facts.Row({"counters", Number(c.rows()) + " rows, " + Number(c.batches()) + " batches, " +
                             Bytes(c.bytes_read()) + " read, " + Number(c.bad_records()) +
                             " bad records, " + Number(c.replaced()) + " replaced, " +
                             Number(c.defaulted()) + " defaulted, " + Number(c.reread()) +
                             " read twice"});
  for (const auto& note : stream.note()) facts.Row({"note", note});
  facts.Print();
  Table lanes;
  if (stream.lane_size() > 0) {
    lanes.Row({"RANK", "WORLD", "EPOCH", "STEP", "FREE", "FILLING", "READY", "HELD", "WAIT S",
               "CONSUMERS"});
  }
  for (const auto& lane : stream.lane()) {
    std::string consumers;
    for (const auto& consumer : lane.consumer()) {
      consumers += (consumers.empty() ? "pid " : ", pid ") + std::to_string(consumer.pid());
    }
    char wait[32];
    std::snprintf(wait, sizeof(wait), "%.2f", lane.consumer_wait_seconds());
    lanes.Row({Number(lane.rank()), Number(lane.world_size()), Number(lane.epoch()),
               Number(lane.step()), Number(lane.slots_free()), Number(lane.slots_filling()),
               Number(lane.slots_ready()), Number(lane.slots_held()), wait, consumers});
    if (!lane.error().empty()) lanes.Row({"error: " + lane.error()});
  }
  lanes.Print();
  for (const auto& bad : stream.bad_record()) {
    std::printf("bad record: %s in %s, record %" PRIu64 ", offset %" PRIu64 ": %s\n",
                bad.fault().c_str(), bad.shard().c_str(), bad.record(), bad.offset(),
                bad.detail().c_str());
  }
}

int ShowStatus(const Globals& globals, const std::string& name) {
  v1::GetStreamRequest request;
  request.set_name(name);
  v1::GetStreamResponse response;
  ControlClient client(globals);
  const Status status = client.Call(&v1::Control::Stub::GetStream, request, &response);
  if (!status.ok()) return Fail(status);
  if (globals.json) {
    PrintJson(response);
  } else {
    PrintStatus(response.stream());
  }
  return kDone;
}

int Explain(const Globals& globals, const std::string& path, std::uint32_t world_size) {
  auto spec = LoadSpec(path);
  if (!spec.ok()) return Fail(spec.status());
  v1::ExplainRequest request;
  *request.mutable_spec() = *spec;
  request.set_world_size(world_size);
  v1::ExplainResponse response;
  ControlClient client(globals);
  const Status status = client.Call(&v1::Control::Stub::Explain, request, &response);
  if (!status.ok()) return Fail(status);
  if (globals.json) {
    PrintJson(response);
    return kDone;
  }
  Table tensors;
  tensors.Row({"TENSOR", "DTYPE", "SHAPE", "MOST BYTES", "FORM"});
  for (const auto& tensor : response.tensor()) {
    tensors.Row({tensor.name(), v1::DType_Name(tensor.dtype()), Shape(tensor),
                 Number(tensor.max_bytes()), tensor.form()});
  }
  tensors.Print();
  std::printf("%" PRIu64 " records in %" PRIu64 " shards; an epoch has %" PRIu64 " rows, %" PRIu64
              " steps, and leaves %" PRIu64 " rows out\n",
              response.records(), response.shards(), response.rows_per_epoch(),
              response.steps_per_epoch(), response.dropped_rows_per_epoch());
  std::printf("a slot has %s, an arena %s; %s are free (%s)\n",
              Bytes(response.slot_bytes()).c_str(), Bytes(response.arena_bytes()).c_str(),
              Bytes(response.budget_free_bytes()).c_str(), response.budget_limit().c_str());
  for (const auto& note : response.note()) std::printf("note: %s\n", note.c_str());
  std::printf("\nwith every default written out:\n%s", config::SpecText(response.spec()).c_str());
  return kDone;
}

}  // namespace

ControlClient::ControlClient(const Globals& globals)
    : socket_(RuntimeDir(globals) + "/control.sock") {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetMaxSendMessageSize(64 << 20);
  stub_ = v1::Control::NewStub(
      grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
}

Status ControlClient::ToStatus(const grpc::Status& status) const {
  if (status.ok()) return Status();
  const auto code = static_cast<Code>(status.error_code());
  if (code == Code::kUnavailable) {
    return Status(code, "no daemon answers on " + socket_ + ": " + status.error_message() +
                            "; start stokerd, or set --runtime-dir");
  }
  return Status(code, status.error_message());
}

void AddControlCommands(CLI::App* app, Globals* globals, int* exit_code) {
  auto* open = app->add_subcommand("open", "make a stream ready to be attached to");
  auto spec = std::make_shared<std::string>();
  open->add_option("SPEC", *spec, "stream spec, protobuf text")->required();
  open->callback([=] { *exit_code = Open(*globals, *spec); });

  auto* close = app->add_subcommand("close", "end a stream and its consumers");
  auto name = std::make_shared<std::string>();
  close->add_option("NAME", *name, "the stream")->required();
  close->callback([=] { *exit_code = Close(*globals, *name); });

  auto* list = app->add_subcommand("list", "the daemon's streams");
  list->callback([=] { *exit_code = List(*globals); });

  auto* status = app->add_subcommand("status", "what one stream is doing");
  auto which = std::make_shared<std::string>();
  status->add_option("NAME", *which, "the stream")->required();
  status->callback([=] { *exit_code = ShowStatus(*globals, *which); });

  auto* explain = app->add_subcommand("explain", "what a spec would deliver, without running it");
  auto path = std::make_shared<std::string>();
  auto world = std::make_shared<std::uint32_t>(1);
  explain->add_option("SPEC", *path, "stream spec, protobuf text")->required();
  explain->add_option("--world-size", *world, "ranks to compute steps for");
  explain->callback([=] { *exit_code = Explain(*globals, *path, *world); });
}

}  // namespace stoker::cli
