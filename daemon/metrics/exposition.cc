#include "daemon/metrics/exposition.h"

#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace stoker::metrics {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string Escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out;
}

std::string Text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}
std::string Text(std::uint64_t value) { return std::to_string(value); }

class Page {
 public:
  // Samples that follow belong to this family.
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + std::string(help) + "\n";
    text_ += "# TYPE " + name_ + " " + std::string(type) + "\n";
  }
  template <typename Value>
  void Sample(const Labels& labels, Value value) {
    text_ += name_;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      text_ += (i == 0 ? "{" : ",") + std::string(labels[i].first) + "=\"" +
               Escaped(labels[i].second) + "\"";
    }
    text_ += (labels.empty() ? " " : "} ") + Text(value) + "\n";
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void DaemonFamilies(const v1::GetDaemonResponse& daemon, std::size_t streams, Page* page) {
  page->Family("stoker_build_info", "gauge", "1, labelled with the daemon's version.");
  page->Sample({{"version", daemon.version()}}, std::uint64_t{1});
  page->Family("stoker_workers", "gauge", "Threads that prepare rows.");
  page->Sample({}, std::uint64_t{daemon.workers()});
  page->Family("stoker_budget_bytes", "gauge", "The daemon's memory budget.");
  page->Sample({}, daemon.budget_bytes());
  page->Family("stoker_budget_used_bytes", "gauge", "What is reserved of the budget.");
  page->Sample({}, daemon.budget_used_bytes());
  page->Family("stoker_streams", "gauge", "Open streams.");
  page->Sample({}, std::uint64_t{streams});
}

using Streams = std::vector<v1::StreamStatus>;
using Lane = v1::LaneStatus;

template <typename Value>
void PerStream(const Streams& streams, std::string_view name, std::string_view type,
               std::string_view help, Value (*value)(const v1::StreamStatus&), Page* page) {
  page->Family(name, type, help);
  for (const auto& stream : streams) page->Sample({{"stream", stream.name()}}, value(stream));
}

template <typename Value>
void PerLane(const Streams& streams, std::string_view name, std::string_view type,
             std::string_view help, Value (*value)(const Lane&), Page* page) {
  page->Family(name, type, help);
  for (const auto& stream : streams) {
    for (const Lane& lane : stream.lane()) {
      page->Sample({{"stream", stream.name()}, {"rank", std::to_string(lane.rank())}}, value(lane));
    }
  }
}

void StreamFamilies(const Streams& all, Page* page) {
  using S = v1::StreamStatus;
  const auto count = [&](std::string_view name, std::string_view help,
                         std::uint64_t (*value)(const S&)) {
    PerStream<std::uint64_t>(all, name, "counter", help, value, page);
  };
  count("stoker_rows_total", "Rows delivered.", [](const S& s) { return s.counters().rows(); });
  count("stoker_batches_total", "Batches delivered.",
        [](const S& s) { return s.counters().batches(); });
  count("stoker_read_bytes_total", "Bytes read from shards.",
        [](const S& s) { return s.counters().bytes_read(); });
  count("stoker_rereads_total", "Records read a second time.",
        [](const S& s) { return s.counters().reread(); });
  count("stoker_replaced_rows_total", "Bad rows that another record took the place of.",
        [](const S& s) { return s.counters().replaced(); });
  page->Family("stoker_bad_records_total", "counter", "Bad records met in delivery, by class.");
  for (const S& stream : all) {
    const std::map<std::string, std::uint64_t> sorted(stream.counters().bad_by_class().begin(),
                                                      stream.counters().bad_by_class().end());
    for (const auto& [fault, bad] : sorted) {
      page->Sample({{"stream", stream.name()}, {"class", fault}}, bad);
    }
  }
  PerStream<std::uint64_t>(
      all, "stoker_arena_bytes", "gauge", "Memory of the stream's arenas.",
      [](const S& s) { return s.arena_bytes(); }, page);
  PerStream<std::uint64_t>(
      all, "stoker_index_bytes", "gauge", "Memory of the stream's index.",
      [](const S& s) { return s.index_bytes(); }, page);
  PerStream<double>(
      all, "stoker_index_progress_ratio", "gauge", "How much of the index is there, 0 to 1.",
      [](const S& s) { return s.index_progress(); }, page);
}

void LaneFamilies(const Streams& all, Page* page) {
  page->Family("stoker_slots", "gauge", "Slots of a lane, by what they do.");
  for (const auto& stream : all) {
    for (const Lane& lane : stream.lane()) {
      const std::string rank = std::to_string(lane.rank());
      const std::pair<const char*, std::uint64_t> states[] = {{"free", lane.slots_free()},
                                                              {"filling", lane.slots_filling()},
                                                              {"ready", lane.slots_ready()},
                                                              {"held", lane.slots_held()}};
      for (const auto& [state, slots] : states) {
        page->Sample({{"stream", stream.name()}, {"rank", rank}, {"state", state}}, slots);
      }
    }
  }
  PerLane<std::uint64_t>(
      all, "stoker_consumers", "gauge", "Attached clients of a lane.",
      [](const Lane& lane) { return static_cast<std::uint64_t>(lane.consumer_size()); }, page);
  PerLane<double>(
      all, "stoker_consumer_wait_seconds_total", "counter",
      "Time in which a lane had no batch to give.",
      [](const Lane& lane) { return lane.consumer_wait_seconds(); }, page);
  PerLane<double>(
      all, "stoker_producer_blocked_seconds_total", "counter",
      "Time in which all slots of a lane were taken.",
      [](const Lane& lane) { return lane.producer_blocked_seconds(); }, page);
  PerLane<std::uint64_t>(
      all, "stoker_lane_rows_total", "counter", "Rows delivered by a lane.",
      [](const Lane& lane) { return lane.rows_delivered(); }, page);
  PerLane<std::uint64_t>(
      all, "stoker_lane_epoch", "gauge", "The epoch of a lane's next batch.",
      [](const Lane& lane) { return lane.epoch(); }, page);
  PerLane<std::uint64_t>(
      all, "stoker_lane_failed", "gauge", "1 where an error ended a lane.",
      [](const Lane& lane) { return std::uint64_t{lane.error().empty() ? 0u : 1u}; }, page);
}

}  // namespace

std::string Exposition(const v1::GetDaemonResponse& daemon,
                       const std::vector<v1::StreamStatus>& streams) {
  Page page;
  DaemonFamilies(daemon, streams.size(), &page);
  StreamFamilies(streams, &page);
  LaneFamilies(streams, &page);
  return page.Take();
}

}  // namespace stoker::metrics
