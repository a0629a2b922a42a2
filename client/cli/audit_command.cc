// audit: what a stream's lanes delivered, and whether each row of each epoch came once.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "client/cli/common.h"
#include "client/cli/control_client.h"

namespace stoker::cli {
namespace {

// A stretch of global rows of an epoch, and how often its rows count after all rewinds.
struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t times = 0;
  bool partly = false;  // some ranks have had it and others not yet
};

using Lane = std::pair<std::uint32_t, std::uint32_t>;  // world size, rank
using Lanes = std::map<Lane, std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

// A step is whole when every rank of its world has had it, so the rows of a world are those that
// all its ranks have; worlds come one after the other.
Stretch Count(const Lanes& lanes, const std::set<Lane>& known, std::uint64_t begin,
              std::uint64_t end) {
  std::map<std::uint32_t, std::uint64_t> least;  // world: the rank that had it least often
  Stretch stretch{begin, end, 0, false};
  for (const Lane& lane : known) {
    std::uint64_t times = 0;
    if (const auto it = lanes.find(lane); it != lanes.end()) {
      for (const auto& [from, to] : it->second) times += from <= begin && end <= to ? 1 : 0;
    }
    stretch.partly = stretch.partly || times > 0;
    const auto world = least.emplace(lane.first, times).first;
    world->second = std::min(world->second, times);
  }
  for (const auto& [world, times] : least) stretch.times += times;
  stretch.partly = stretch.partly && stretch.times == 0;
  return stretch;
}

std::vector<Stretch> Cover(const Lanes& lanes, const std::set<Lane>& known) {
  std::set<std::uint64_t> bounds = {0};
  for (const auto& [lane, parts] : lanes) {
    for (const auto& [from, to] : parts) {
      bounds.insert(from);
      bounds.insert(to);
    }
  }
  std::vector<Stretch> stretches;
  for (auto it = bounds.begin(); std::next(it) != bounds.end(); ++it) {
    const Stretch next = Count(lanes, known, *it, *std::next(it));
    if (!stretches.empty() && stretches.back().times == next.times &&
        stretches.back().partly == next.partly) {
      stretches.back().end = next.end;
    } else {
      stretches.push_back(next);
    }
  }
  return stretches;
}

std::map<std::uint64_t, std::vector<Stretch>> CoverEpochs(const v1::AuditResponse& audit) {
  std::set<Lane> known;
  std::map<std::uint64_t, Lanes> epochs;
  for (const auto& entry : audit.entry()) {
    known.insert({entry.world_size(), entry.rank()});
    Lanes& lanes = epochs[entry.epoch()];
    if (entry.effective_row() > entry.start_row()) {
      lanes[{entry.world_size(), entry.rank()}].emplace_back(entry.start_row(),
                                                             entry.effective_row());
    }
  }
  std::map<std::uint64_t, std::vector<Stretch>> covered;
  for (const auto& [epoch, lanes] : epochs) covered[epoch] = Cover(lanes, known);
  return covered;
}

const char* Verdict(const Stretch& stretch) {
  if (stretch.partly) return "partly";
  if (stretch.times == 0) return "missing";
  return stretch.times == 1 ? "once" : "more than once";
}

void PrintTable(const v1::AuditResponse& audit) {
  Table table;
  table.Row({"RUN", "RANK", "WORLD", "EPOCH", "FROM", "DELIVERED", "RELEASED", "COUNTS", "ROWS",
             "BATCHES", "SKIPPED", "REPLACED", ""});
  const auto text = [](std::uint64_t value) { return std::to_string(value); };
  for (const auto& e : audit.entry()) {
    const bool rewound = e.effective_row() < e.delivered_row();
    table.Row({text(e.run()), e.broadcast() ? "all" : text(e.rank()), text(e.world_size()),
               text(e.epoch()), text(e.start_row()), text(e.delivered_row()),
               text(e.released_row()), text(e.effective_row()), text(e.rows()), text(e.batches()),
               text(e.skipped()), text(e.replaced()),
               rewound     ? "rewound"
               : e.open()  ? "runs"
               : e.ended() ? "ended"
                           : "left"});
  }
  table.Print();
}

int Audit(const Globals& globals, const std::string& name) {
  v1::AuditRequest request;
  request.set_name(name);
  v1::AuditResponse response;
  ControlClient client(globals);
  const Status status = client.Call(&v1::Control::Stub::Audit, request, &response);
  if (!status.ok()) return Fail(status);
  const auto epochs = CoverEpochs(response);
  if (globals.json) {
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    options.always_print_primitive_fields = true;
    std::string text;
    (void)google::protobuf::util::MessageToJsonString(response, &text, options);
    Json json = Json::parse(text);
    json["epochs"] = Json::array();
    for (const auto& [epoch, stretches] : epochs) {
      Json rows = Json::array();
      for (const Stretch& s : stretches) {
        rows.push_back({{"begin", s.begin}, {"end", s.end}, {"verdict", Verdict(s)}});
      }
      json["epochs"].push_back({{"epoch", epoch}, {"rows", rows}});
    }
    std::printf("%s\n", json.dump(1).c_str());
    return kDone;
  }
  PrintTable(response);
  if (response.forgotten() > 0) {
    std::printf("%" PRIu64 " older entries are no longer kept\n", response.forgotten());
  }
  for (const auto& [epoch, stretches] : epochs) {
    for (const Stretch& s : stretches) {
      std::printf("epoch %" PRIu64 ": rows %" PRIu64 " to %" PRIu64 " %s\n", epoch, s.begin, s.end,
                  Verdict(s));
    }
  }
  return kDone;
}

}  // namespace

void AddAuditCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* audit = app->add_subcommand("audit", "what a stream's lanes delivered, rewinds included");
  auto name = std::make_shared<std::string>();
  audit->add_option("NAME", *name, "the stream, open or closed")->required();
  audit->callback([=] { *exit_code = Audit(*globals, *name); });
}

}  // namespace stoker::cli
