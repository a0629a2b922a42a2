// read, sheet: attach as a trainer does, and look at what comes.
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "client/cli/batch_reader.h"
#include "client/cli/common.h"
#include "client/cli/control_client.h"
#include "client/cli/digest.h"
#include "client/cli/sheet.h"
#include "client/cli/target.h"
#include "daemon/base/half.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kForever = -1;
constexpr auto kRedraw = std::chrono::milliseconds(250);
constexpr auto kGlance = std::chrono::milliseconds(200);  // what a redraw may cost the reader
constexpr int kRecordBits = 40;

struct Settings {
  std::string target;
  ReadOptions read;
  std::uint64_t epochs = 0;   // 0: to the stream's end
  std::uint64_t batches = 0;  // 0: no limit
  bool digest = false;
  bool dump = false;
  bool print_token = false;
};

Json FloatJson(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

// One value as JSON; float32 with the digits that give it back.
Json ValueJson(const stoker_tensor& tensor, const std::byte* at) {
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  const std::uint8_t bits = tensor.dtype_bits;
  switch (tensor.dtype_code) {
    case 0:
      return bits == 8    ? Json(static_cast<std::int64_t>(load(std::int8_t{})))
             : bits == 16 ? Json(load(std::int16_t{}))
             : bits == 32 ? Json(load(std::int32_t{}))
                          : Json(load(std::int64_t{}));
    case 1:
    case 6:
      return bits == 8    ? Json(static_cast<std::uint64_t>(load(std::uint8_t{})))
             : bits == 16 ? Json(load(std::uint16_t{}))
             : bits == 32 ? Json(load(std::uint32_t{}))
                          : Json(load(std::uint64_t{}));
    case 4:
      return FloatJson(FromBfloat16(load(std::uint16_t{})));
    default:
      return FloatJson(bits == 16   ? FromFloat16(load(std::uint16_t{}))
                       : bits == 32 ? static_cast<double>(load(float{}))
                                    : load(double{}));
  }
}

// A row of a tensor as nested lists, following its shape.
Json Nested(const stoker_tensor& tensor, const std::byte** at, std::uint8_t side) {
  const std::uint64_t item = tensor.dtype_bits / 8u;
  if (side == tensor.ndim) {
    Json value = ValueJson(tensor, *at);
    *at += item;
    return value;
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < tensor.shape[side]; ++i)
    list.push_back(Nested(tensor, at, static_cast<std::uint8_t>(side + 1)));
  return list;
}

Json RowJson(const BatchTensors& tensors, std::uint32_t i, std::uint32_t row) {
  const stoker_tensor& tensor = tensors.tensor(i);
  const RowValues values = tensors.Row(i, row);
  if (tensors.strings(i)) {
    Json list = Json::array();
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    tensors.Strings(i, row, &first, &last);
    for (std::uint64_t s = first; s < last; ++s) {
      const auto text = tensors.String(i, s);
      list.push_back(Base64(reinterpret_cast<const std::byte*>(text.data()), text.size()));
    }
    return list;
  }
  const std::byte* at = values.data;
  if (!tensors.varies(i) && !tensors.padded(i)) return Nested(tensor, &at, 1);
  Json list = Json::array();
  for (std::uint64_t v = 0; v < values.count; ++v, at += tensor.dtype_bits / 8u) {
    list.push_back(ValueJson(tensor, at));
  }
  return list;
}

void DumpRow(const stoker_batch_info& info, const BatchTensors& tensors, std::uint32_t row) {
  Json line;
  line["epoch"] = info.epoch;
  line["step"] = info.step;
  line["row"] = info.first_row + row;
  const std::int64_t id = tensors.row_id(row);
  line["row_id"] = id;
  line["shard"] = id < 0 ? -1 : id >> kRecordBits;
  line["record"] = id < 0 ? -1 : id & ((std::int64_t{1} << kRecordBits) - 1);
  Json& values = line["tensors"] = Json::object();
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    values[std::string(Name(tensors.tensor(i)))] = RowJson(tensors, i, row);
  }
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// The line that a person watches.
class Progress {
 public:
  Progress(const Globals& globals, std::string name, std::uint32_t rank)
      : shown_(OnTerminal() && !globals.json),
        client_(globals),
        name_(std::move(name)),
        rank_(rank) {}

  void Show(stoker_stream* stream, const stoker_batch_info& info, std::uint64_t rows) {
    const auto now = Clock::now();
    if (!shown_ || now - drawn_ < kRedraw) return;
    drawn_ = now;
    stoker_stream_info stats = {};
    stats.struct_bytes = sizeof(stats);
    stoker_stream_get_info(stream, &stats);
    v1::GetStreamRequest request;
    request.set_name(name_);
    v1::GetStreamResponse response;
    std::string ready = "?";
    if (client_.Call(&v1::Control::Stub::GetStream, request, &response, kGlance).ok()) {
      for (const auto& lane : response.stream().lane()) {
        if (lane.rank() == rank_) ready = std::to_string(lane.slots_ready());
      }
    }
    const double seconds = std::chrono::duration<double>(now - began_).count();
    std::fprintf(stderr,
                 "\r%s rank %u  epoch %" PRIu64 " step %" PRIu64 "/%" PRIu64
                 "  %.0f rows/s  ready %s/%u  waited %.1f %%\033[K",
                 name_.c_str(), rank_, info.epoch, info.step + 1, stats.steps_per_epoch,
                 static_cast<double>(rows) / std::max(seconds, 1e-9), ready.c_str(), stats.slots,
                 static_cast<double>(stats.waited_ns) / 1e7 / std::max(seconds, 1e-9));
  }
  void Done() const {
    if (shown_ && drawn_ != Clock::time_point{}) std::fprintf(stderr, "\n");
  }

 private:
  const bool shown_;
  ControlClient client_;
  const std::string name_;
  const std::uint32_t rank_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point drawn_{};
};

int Read(const Globals& globals, const Settings& settings) {
  auto target = FindTarget(globals, settings.target);
  if (!target.ok()) return Fail(target.status());
  auto stream = Attach(globals, *target, settings.read);
  if (!stream.ok()) return Fail(stream.status());
  stoker_stream_info stats = {};
  stats.struct_bytes = sizeof(stats);
  stoker_stream_get_info(stream->get(), &stats);
  const std::string& name = target->name;

  const auto began = Clock::now();
  Progress progress(globals, name, settings.read.rank);
  EpochDigest digest;
  std::uint64_t rows = 0;
  std::uint64_t batches = 0;
  std::uint64_t epochs = 0;
  std::uint64_t epoch_rows = 0;
  std::uint64_t epoch_batches = 0;
  std::uint64_t epoch = stats.epoch;
  const auto end_epoch = [&] {
    if (settings.digest) {
      Json line;
      line["epoch"] = epoch;
      line["batches"] = epoch_batches;
      line["rows"] = epoch_rows;
      line["digest"] = digest.Finish();
      std::printf("%s\n", line.dump().c_str());
    }
    epoch_rows = epoch_batches = 0;
    ++epoch;
  };
  const auto enough_epochs = [&] { return settings.epochs != 0 && epochs >= settings.epochs; };
  while (true) {
    if (settings.batches != 0 && batches == settings.batches) {
      if (epoch_batches > 0) end_epoch();
      break;
    }
    stoker_batch* taken = nullptr;
    const stoker_code code = stoker_next(stream->get(), kForever, &taken);
    if (code == STOKER_OUT_OF_RANGE) {
      stoker_stream_get_info(stream->get(), &stats);
      // An epoch ends for every reader, also for one that got nothing of it; behind the last one
      // there is none to end.
      if (stats.repeat == 0 || epoch < stats.repeat) {
        end_epoch();
        ++epochs;
      }
      if (stats.ended != 0 || enough_epochs()) break;
      continue;
    }
    if (code != STOKER_OK) {
      progress.Done();
      std::fflush(stdout);
      return Fail(LastError(code));
    }
    const BatchPtr batch(taken);
    stoker_batch_info info = {};
    info.struct_bytes = sizeof(info);
    stoker_batch_get_info(taken, &info);
    // An epoch without a step for this reader ends without a word.
    for (; epoch < info.epoch && !enough_epochs(); ++epochs) end_epoch();
    if (enough_epochs()) break;
    ++batches;
    ++epoch_batches;
    rows += info.rows;
    epoch_rows += info.rows;
    if (settings.digest || settings.dump) {
      const BatchTensors tensors(taken);
      for (std::uint32_t row = 0; row < info.rows; ++row) {
        if (settings.digest) digest.Add(tensors, row);
        if (settings.dump) DumpRow(info, tensors, row);
      }
    }
    progress.Show(stream->get(), info, rows);
  }
  progress.Done();
  char token[STOKER_TOKEN_MAX];
  if (settings.print_token &&
      stoker_stream_token(stream->get(), token, sizeof(token)) == STOKER_OK) {
    std::printf("%s\n", token);
  }
  if (settings.digest || settings.dump || settings.print_token) return kDone;
  stoker_stream_get_info(stream->get(), &stats);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const double waited = static_cast<double>(stats.waited_ns) / 1e9;
  if (globals.json) {
    Json out;
    out["stream"] = name;
    out["rank"] = settings.read.rank;
    out["world_size"] = settings.read.world_size;
    out["epochs"] = epochs;
    out["batches"] = batches;
    out["rows"] = rows;
    out["seconds"] = seconds;
    out["rows_per_second"] = static_cast<double>(rows) / std::max(seconds, 1e-9);
    out["wait_seconds"] = waited;
    out["reconnects"] = stats.reconnects;
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%s rank %u of %u: %" PRIu64 " rows in %" PRIu64 " batches, %" PRIu64
                " epochs, %.0f rows/s, waited %.2f of %.2f s\n",
                name.c_str(), settings.read.rank, settings.read.world_size, rows, batches, epochs,
                static_cast<double>(rows) / std::max(seconds, 1e-9), waited, seconds);
  }
  return kDone;
}

int Sheet(const Globals& globals, const std::string& argument, std::uint32_t rows,
          const std::string& out) {
  auto target = FindTarget(globals, argument);
  if (!target.ok()) return Fail(target.status());
  auto stream = Attach(globals, *target, ReadOptions());
  if (!stream.ok()) return Fail(stream.status());
  stoker_batch* taken = nullptr;
  const stoker_code code = stoker_next(stream->get(), kForever, &taken);
  if (code != STOKER_OK) return Fail(LastError(code));
  const BatchPtr batch(taken);
  const Status written = WriteSheet(BatchTensors(taken), rows, out);
  if (!written.ok()) return Fail(written);
  if (!globals.json) std::printf("%s\n", out.c_str());
  return kDone;
}

}  // namespace

void AddReadCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* read = app->add_subcommand("read", "attach like a trainer and take batches");
  auto settings = std::make_shared<Settings>();
  read->add_option("STREAM", settings->target, "a stream's name, or a spec file")->required();
  read->add_option("--rank", settings->read.rank, "this reader's rank");
  read->add_option("--world-size", settings->read.world_size, "ranks that read together");
  read->add_option("--epochs", settings->epochs, "stop after so many epochs");
  read->add_option("--batches", settings->batches, "stop after so many batches");
  read->add_option("--token", settings->read.token, "begin at this token");
  read->add_flag("--digest", settings->digest, "one JSON line an epoch with its digest");
  read->add_flag("--dump", settings->dump, "one JSON line a row");
  read->add_flag("--print-token", settings->print_token, "print the token after the last batch");
  read->callback([=] { *exit_code = Read(*globals, *settings); });

  auto* sheet = app->add_subcommand("sheet", "a contact sheet of the first batch's images");
  auto target = std::make_shared<std::string>();
  auto rows = std::make_shared<std::uint32_t>(16);
  auto out = std::make_shared<std::string>("sheet.png");
  sheet->add_option("STREAM", *target, "a stream's name, or a spec file")->required();
  sheet->add_option("--rows", *rows, "images to draw");
  sheet->add_option("--out", *out, "PNG to write");
  sheet->callback([=] { *exit_code = Sheet(*globals, *target, *rows, *out); });
}

}  // namespace stoker::cli
