// which: the records of one batch and what its random ops draw, without running the stream.
#include <google/protobuf/util/json_util.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "client/cli/common.h"
#include "client/cli/control_client.h"

namespace stoker::cli {
namespace {

std::string DrawText(const v1::WhichDraw& draw) {
  std::string text = draw.tensor() + "/" + draw.op();
  if (draw.has_applied()) return text + (draw.applied() ? " yes" : " no");
  for (const std::uint32_t word : draw.word()) {
    char hex[16];
    std::snprintf(hex, sizeof(hex), " %08x", word);
    text += hex;
  }
  return text;
}

int Which(const Globals& globals, const v1::WhichRequest& request) {
  v1::WhichResponse response;
  ControlClient client(globals);
  const Status status = client.Call(&v1::Control::Stub::Which, request, &response);
  if (!status.ok()) return Fail(status);
  if (globals.json) {
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    options.always_print_primitive_fields = true;
    std::string text;
    (void)google::protobuf::util::MessageToJsonString(response, &text, options);
    std::printf("%s\n", text.c_str());
    return kDone;
  }
  Table table;
  table.Row({"ROW", "RECORD", "OFFSET", "ROW ID", "SHARD", "DRAWS"});
  for (const auto& row : response.row()) {
    std::string draws;
    for (const auto& draw : row.draw()) draws += (draws.empty() ? "" : "; ") + DrawText(draw);
    table.Row({std::to_string(row.row()), std::to_string(row.record()),
               std::to_string(row.offset()), std::to_string(row.row_id()), row.shard(), draws});
  }
  table.Print();
  if (response.filler() > 0) std::printf("and %u rows of filler\n", response.filler());
  return kDone;
}

}  // namespace

void AddWhichCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* which = app->add_subcommand("which", "the records of one batch, from the plan alone");
  auto request = std::make_shared<v1::WhichRequest>();
  auto name = std::make_shared<std::string>();
  auto numbers = std::make_shared<std::array<std::uint64_t, 3>>();
  auto ranks = std::make_shared<std::array<std::uint32_t, 2>>();
  which->add_option("NAME", *name, "the stream")->required();
  which->add_option("--epoch", (*numbers)[0], "from 0")->required();
  which->add_option("--step", (*numbers)[1], "of the epoch, from 0")->required();
  which->add_option("--rank", (*ranks)[0], "default 0");
  which->add_option("--world-size", (*ranks)[1], "default: what reads the stream now, else 1");
  which->add_option("--origin", (*numbers)[2],
                    "row of the token with which the run began inside this epoch; default 0");
  which->callback([=] {
    request->set_name(*name);
    request->set_epoch((*numbers)[0]);
    request->set_step((*numbers)[1]);
    request->set_origin((*numbers)[2]);
    request->set_rank((*ranks)[0]);
    request->set_world_size((*ranks)[1]);
    *exit_code = Which(*globals, *request);
  });
}

}  // namespace stoker::cli
