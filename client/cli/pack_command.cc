// pack: a folder of images made a sharded dataset of Examples, with labels and a class list.
#include <pthread.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>

#include "client/cli/common.h"
#include "client/cli/example_writer.h"
#include "client/cli/image_folder.h"
#include "client/cli/meter.h"
#include "client/cli/outputs.h"
#include "client/cli/shard_set.h"
#include "client/cli/tool_input.h"
#include "daemon/base/machine.h"
#include "daemon/base/philox.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kShardBytes = std::uint64_t{128} << 20;

struct Settings {
  std::string from;
  std::string out;
  std::string classes = "auto";
  std::string compression = "none";
  std::uint64_t shards = 0;
  std::uint64_t seed = 0;
  unsigned threads = 0;
  bool as_stored = false;
  bool skip_bad = false;
};

struct LeftOut {
  std::string path;
  std::string why;
};

// Places of the files in the order of the records.
std::vector<std::size_t> OrderOf(std::size_t count, const Settings& settings) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  RowRandom random(settings.seed, 0, 0, 0);
  for (std::size_t i = count; i > 1 && !settings.as_stored; --i) {
    std::swap(order[i - 1], order[random.Below(i)]);
  }
  return order;
}

// The record of one image. `why` says what is wrong with it where there is none.
bool MakeRecord(const std::string& folder, const ImageFolder& images, const ImageFile& file,
                std::string* record, std::string* why) {
  std::ifstream in(folder + "/" + file.path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  if (!in.is_open() || in.bad()) {
    *why = "it cannot be read";
    return false;
  }
  auto facts = LookAt(std::as_bytes(std::span(bytes)));
  if (!facts.ok()) {
    *why = facts.status().message();
    return false;
  }
  const std::int64_t numbers[] = {file.label, facts->height, facts->width};
  ExampleWriter example;
  example.Int64("image/class/label", {&numbers[0], 1});
  example.Bytes("image/class/text", images.classes[file.label]);
  example.Bytes("image/encoded", bytes);
  example.Bytes("image/filename", file.path);
  example.Bytes("image/format", facts->format);
  example.Int64("image/height", {&numbers[1], 1});
  example.Int64("image/width", {&numbers[2], 1});
  *record = example.Take();
  return true;
}

// Writes shards on several threads, each a run of the order.
class Packer {
 public:
  Packer(const Settings& settings, const ImageFolder& images, std::uint64_t shards,
         std::string folder, Meter* meter)
      : settings_(settings),
        images_(images),
        order_(OrderOf(images.files.size(), settings)),
        shards_(shards),
        folder_(std::move(folder)),
        meter_(meter) {}

  Status Run(unsigned threads) {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < threads; ++i) {
      workers.emplace_back([this] {
        pthread_setname_np(pthread_self(), "stoker-pack");
        for (std::uint64_t shard = next_++; shard < shards_; shard = next_++) {
          if (Status status = WriteShard(shard); !status.ok()) Fail(std::move(status));
        }
      });
    }
    workers.clear();
    std::sort(left_out_.begin(), left_out_.end(),
              [](const LeftOut& a, const LeftOut& b) { return a.path < b.path; });
    return failed_;
  }

  const std::vector<LeftOut>& left_out() const { return left_out_; }
  const std::vector<std::atomic<std::uint64_t>>& of_class() const { return of_class_; }

 private:
  void Fail(Status status) {
    const std::scoped_lock lock(mutex_);
    if (failed_.ok()) failed_ = std::move(status);
    next_ = shards_;
  }

  Status WriteShard(std::uint64_t shard) {
    auto writer = io::RecordWriter::Create(ShardPath(folder_, "data", shard, shards_),
                                           CompressionOf(settings_.compression));
    if (!writer.ok()) return writer.status();
    const std::uint64_t begin = shard * order_.size() / shards_;
    const std::uint64_t end = (shard + 1) * order_.size() / shards_;
    std::string record;
    std::string why;
    for (std::uint64_t i = begin; i < end; ++i) {
      if (Interrupted()) return InterruptedStatus();
      const ImageFile& file = images_.files[order_[i]];
      if (MakeRecord(settings_.from, images_, file, &record, &why)) {
        STOKER_TRY(writer->Append(std::as_bytes(std::span(record))));
        ++of_class_[file.label];
        meter_->Add(record.size());
        continue;
      }
      if (!settings_.skip_bad) {
        return Status(Code::kInvalidArgument, settings_.from + "/" + file.path + ": " + why +
                                                  "; with --skip-bad such files are left out");
      }
      const std::scoped_lock lock(mutex_);
      left_out_.push_back({file.path, why});
    }
    return writer->Close();
  }

  const Settings& settings_;
  const ImageFolder& images_;
  const std::vector<std::size_t> order_;
  const std::uint64_t shards_;
  const std::string folder_;
  Meter* const meter_;
  std::atomic<std::uint64_t> next_{0};
  std::vector<std::atomic<std::uint64_t>> of_class_ =
      std::vector<std::atomic<std::uint64_t>>(images_.classes.size());
  std::mutex mutex_;
  std::vector<LeftOut> left_out_;
  Status failed_;
};

// What a stream's name may hold.
std::string StreamName(const std::string& out) {
  std::string name = std::filesystem::path(out).filename().string().substr(0, 128);
  for (char& c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!good) c = '-';
  }
  return name.empty() ? "images" : name;
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : Status(Code::kResourceExhausted, path + ": cannot be written");
}

std::string SpecFor(const Settings& settings, const std::string& out, std::uint64_t shards) {
  const std::string count = ShardPath("", "", 0, shards).substr(std::string("/-00000-of-").size());
  return "# Written by `stoker pack`; files are relative to this folder. Classes are the lines of\n"
         "# classes.txt, the first is label 0.\n"
         "name: \"" +
         StreamName(out) + "\"\nsource { files: \"data-*-of-" + count +
         "\" }\n"
         "tensor {\n  name: \"image\" feature: \"image/encoded\" dtype: FLOAT32\n  image {}\n"
         "  op { random_resized_crop { height: 224 width: 224 } }\n"
         "  op { random_flip_horizontal {} }\n  op { scale { factor: 0.00392156862745098 } }\n}\n"
         "tensor { name: \"label\" feature: \"image/class/label\" dtype: INT64 }\n"
         "batch { size: 32 }\norder { shuffle: " +
         (settings.compression == "none" ? "GLOBAL" : "WINDOW") + " }\n";
}

Status CheckClassNames(const ImageFolder& images) {
  for (const auto& name : images.classes) {
    if (name.find('\n') == std::string::npos) continue;
    return Status(Code::kInvalidArgument, "a class's name holds a line's end; rename its folder");
  }
  return Status();
}

int Print(const Globals& globals, const std::string& out, std::uint64_t shards,
          const ImageFolder& images, const Packer& packer) {
  std::uint64_t total = 0;
  for (const auto& count : packer.of_class()) total += count;
  if (globals.json) {
    Json json;
    json["spec"] = out + "/spec.textproto";
    json["shards"] = shards;
    json["images"] = total;
    json["classes"] = Json::array();
    for (std::size_t i = 0; i < images.classes.size(); ++i) {
      Json one;
      one["label"] = i;
      one["name"] = images.classes[i];
      one["images"] = packer.of_class()[i].load();
      json["classes"].push_back(std::move(one));
    }
    json["left_out"] = Json::array();
    for (const auto& [path, why] : packer.left_out()) {
      Json one;
      one["path"] = path;
      one["why"] = why;
      json["left_out"].push_back(std::move(one));
    }
    json["hidden_skipped"] = images.hidden;
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return kDone;
  }
  for (const auto& [path, why] : packer.left_out()) {
    std::printf("left out: %s: %s\n", path.c_str(), why.c_str());
  }
  std::printf("%s/spec.textproto: %" PRIu64 " images of %zu classes in %" PRIu64 " shards\n",
              out.c_str(), total, images.classes.size(), shards);
  return kDone;
}

int Run(const Globals& globals, const Settings& settings) {
  const ClassesFrom from = settings.classes == "folders"    ? ClassesFrom::kFolders
                           : settings.classes == "prefixes" ? ClassesFrom::kPrefixes
                                                            : ClassesFrom::kAuto;
  auto images = ImageFolder::Scan(settings.from, from);
  if (!images.ok()) return Fail(images.status());
  if (const Status status = CheckClassNames(*images); !status.ok()) return Fail(status);
  std::vector<std::string> paths;
  for (const auto& file : images->files) paths.push_back(settings.from + "/" + file.path);
  const std::uint64_t bytes = TotalBytes(paths);
  const std::uint64_t shards = settings.shards > 0 ? settings.shards : bytes / kShardBytes + 1;
  if (shards > paths.size()) {
    return Fail(std::to_string(shards) + " shards of " + std::to_string(paths.size()) +
                " images: some would be empty; ask for fewer");
  }
  auto staged = Staged::Folder(settings.out);
  if (!staged.ok()) return Fail(staged.status());
  WatchInterrupts();
  Status done;
  std::unique_ptr<Packer> packer;
  {
    Meter meter(OnTerminal() && !globals.json, "pack", bytes);
    packer = std::make_unique<Packer>(settings, *images, shards, staged->temporary(), &meter);
    done = packer->Run(settings.threads > 0 ? settings.threads : AllowedCpus().cpus);
  }
  if (done.ok() && packer->left_out().size() == paths.size()) {
    done = Status(Code::kInvalidArgument,
                  settings.from + ": none of its files is an image: " + packer->left_out()[0].path +
                      ": " + packer->left_out()[0].why);
  }
  std::string list;
  for (const auto& name : images->classes) list += name + "\n";
  if (done.ok()) done = WriteText(staged->temporary() + "/classes.txt", list);
  if (done.ok()) {
    done = WriteText(staged->temporary() + "/spec.textproto",
                     SpecFor(settings, staged->path(), shards));
  }
  if (done.ok()) done = staged->Keep();
  if (!done.ok()) return Fail(done);
  return Print(globals, staged->path(), shards, *images, *packer);
}

}  // namespace

void AddPackCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* pack = app->add_subcommand("pack", "make a dataset of a folder of images");
  auto settings = std::make_shared<Settings>();
  pack->add_option("DIR", settings->from, "folder of images")
      ->required()
      ->check(CLI::ExistingDirectory);
  pack->add_option("OUT", settings->out, "folder to make")->required();
  pack->add_option("--classes", settings->classes, "auto, folders or prefixes")
      ->check(CLI::IsMember({"auto", "folders", "prefixes"}));
  pack->add_option("--shards", settings->shards, "files; default: of 128 MiB")
      ->check(CLI::Range(1, 99999));
  pack->add_option("--compression", settings->compression, "none, gzip or zlib")
      ->check(CLI::IsMember({"none", "gzip", "zlib"}));
  pack->add_option("--seed", settings->seed, "of the order of the records");
  pack->add_flag("--as-stored", settings->as_stored, "do not shuffle: by path");
  pack->add_flag("--skip-bad", settings->skip_bad, "leave out what is no JPEG or PNG, and list it");
  pack->add_option("--threads", settings->threads, "default: the CPUs allowed")
      ->check(CLI::Range(1, 1024));
  pack->callback([=] { *exit_code = Run(*globals, *settings); });
}

}  // namespace stoker::cli
