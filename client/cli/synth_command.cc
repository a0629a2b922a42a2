// synth: sample datasets that are real TFRecords, the same for the same arguments.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "client/cli/common.h"
#include "client/cli/example_writer.h"
#include "client/cli/jpeg_encoder.h"
#include "daemon/base/philox.h"
#include "daemon/io/record_writer.h"

namespace stoker::cli {
namespace {

constexpr std::uint32_t kClasses = 4;
constexpr std::uint32_t kLongestText = 200;

struct Settings {
  std::string dir;
  std::string kind = "image";
  std::string compression = "none";
  std::uint32_t shards = 4;
  std::uint64_t rows = 1000;
  std::uint64_t seed = 1;
  std::uint32_t floats = 32;  // of a tabular row
};

// A picture of one class: 0 a disc, 1 a square, 2 stripes, 3 a cross, on a shaded ground.
std::vector<std::uint8_t> Draw(std::uint32_t label, std::uint32_t height, std::uint32_t width,
                               RowRandom* random) {
  const float ground = 60.0f + 100.0f * random->NextFloat();
  std::uint8_t ink[3];
  for (auto& channel : ink) channel = static_cast<std::uint8_t>(80 + random->Below(176));
  ink[label % 3] = 255;
  const auto centre_y = static_cast<float>(height) * (0.35f + 0.3f * random->NextFloat());
  const auto centre_x = static_cast<float>(width) * (0.35f + 0.3f * random->NextFloat());
  const float radius =
      static_cast<float>(std::min(height, width)) * (0.18f + 0.12f * random->NextFloat());
  std::vector<std::uint8_t> rgb(std::size_t{height} * width * 3);
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const float dy = std::fabs(static_cast<float>(y) - centre_y);
      const float dx = std::fabs(static_cast<float>(x) - centre_x);
      const bool inside = dy < radius && dx < radius;
      const bool drawn = label == 0   ? dy * dy + dx * dx < radius * radius
                         : label == 1 ? inside
                         : label == 2 ? inside && (y / 8) % 2 == 0
                                      : inside && (dy < radius / 4 || dx < radius / 4);
      const float shade = ground + 60.0f * static_cast<float>(y) / static_cast<float>(height);
      for (std::uint32_t c = 0; c < 3; ++c) {
        rgb[(std::size_t{y} * width + x) * 3 + c] =
            drawn ? ink[c] : static_cast<std::uint8_t>(shade + 8.0f * static_cast<float>(c));
      }
    }
  }
  return rgb;
}

Result<std::string> ImageRow(RowRandom* random) {
  const auto label = static_cast<std::int64_t>(random->Below(kClasses));
  const auto height = static_cast<std::uint32_t>(160 + random->Below(120));
  const auto width = static_cast<std::uint32_t>(160 + random->Below(160));
  const auto rgb = Draw(static_cast<std::uint32_t>(label), height, width, random);
  auto jpeg = EncodeJpeg(rgb, height, width);
  if (!jpeg.ok()) return jpeg;
  ExampleWriter example;
  example.Bytes("image/encoded", *jpeg);
  example.Bytes("image/format", "jpeg");
  example.Int64("image/class/label", {&label, 1});
  const std::int64_t sides[2] = {height, width};
  example.Int64("image/height", {&sides[0], 1});
  example.Int64("image/width", {&sides[1], 1});
  return example.Take();
}

// The label is the sign of a fixed combination, so that a model can learn it.
std::string TabularRow(std::uint32_t floats, RowRandom* random) {
  std::vector<float> x(floats);
  float sum = 0;
  for (std::uint32_t i = 0; i < floats; ++i) {
    x[i] = 2.0f * random->NextFloat() - 1.0f;
    sum += (i % 3 == 0 ? 1.0f : -0.5f) * x[i];
  }
  const std::int64_t label = sum > 0 ? 1 : 0;
  ExampleWriter example;
  example.Float("x", x);
  example.Int64("label", {&label, 1});
  return example.Take();
}

// Tokens of a small vocabulary; the label says whether the first one comes again.
std::string TextRow(RowRandom* random) {
  std::vector<std::int64_t> tokens(1 + random->Below(kLongestText));
  for (auto& token : tokens) token = static_cast<std::int64_t>(random->Below(1000));
  std::int64_t label = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) label |= tokens[i] == tokens[0] ? 1 : 0;
  ExampleWriter example;
  example.Int64("tokens", tokens);
  example.Int64("label", {&label, 1});
  return example.Take();
}

std::string SpecFor(const Settings& settings) {
  // The set by its count: shards of an earlier one may lie in the same folder.
  char count[16];
  std::snprintf(count, sizeof(count), "%05u", settings.shards);
  std::string text =
      "# Written by `stoker synth`; files are relative to this folder.\n"
      "name: \"" +
      settings.kind + "\"\nsource { files: \"data-*-of-" + count + "\" }\n";
  const bool compressed = settings.compression != "none";
  if (settings.kind == "image") {
    text +=
        "tensor {\n  name: \"image\" feature: \"image/encoded\" dtype: FLOAT32\n  image {}\n"
        "  op { random_resized_crop { height: 224 width: 224 } }\n"
        "  op { random_flip_horizontal {} }\n  op { scale { factor: 0.00392156862745098 } }\n}\n"
        "tensor { name: \"label\" feature: \"image/class/label\" dtype: INT64 }\nbatch { size: 32 "
        "}\n";
  } else if (settings.kind == "tabular") {
    text += "tensor { name: \"x\" dtype: FLOAT32 shape: " + std::to_string(settings.floats) +
            " }\n"
            "tensor { name: \"label\" dtype: INT64 }\nbatch { size: 256 remainder: DROP }\n";
  } else {
    text +=
        "tensor { name: \"tokens\" dtype: INT64 ragged {} }\n"
        "tensor { name: \"label\" dtype: INT64 }\nbatch { size: 64 }\n";
  }
  text += compressed ? "order { shuffle: WINDOW seed: 7 repeat: 3 }\n"
                     : "order { shuffle: GLOBAL seed: 7 repeat: 3 }\n";
  return text;
}

Status WriteShard(const Settings& settings, std::uint32_t shard) {
  char name[64];
  std::snprintf(name, sizeof(name), "/data-%05u-of-%05u", shard, settings.shards);
  const auto compression = settings.compression == "gzip"   ? io::Compression::kGzip
                           : settings.compression == "zlib" ? io::Compression::kZlib
                                                            : io::Compression::kPlain;
  auto writer = io::RecordWriter::Create(settings.dir + name, compression);
  if (!writer.ok()) return writer.status();
  const std::uint64_t begin = shard * settings.rows / settings.shards;
  const std::uint64_t end = (shard + std::uint64_t{1}) * settings.rows / settings.shards;
  for (std::uint64_t row = begin; row < end; ++row) {
    RowRandom random(settings.seed, static_cast<std::int64_t>(row), 0, 0);
    const Result<std::string> example = settings.kind == "image" ? ImageRow(&random)
                                        : settings.kind == "tabular"
                                            ? TabularRow(settings.floats, &random)
                                            : TextRow(&random);
    if (!example.ok()) return example.status();
    STOKER_TRY(writer->Append(std::as_bytes(std::span(*example))));
  }
  return writer->Close();
}

int Run(const Globals& globals, const Settings& settings) {
  std::error_code error;
  std::filesystem::create_directories(settings.dir, error);
  if (error) return Fail(settings.dir + ": " + error.message());
  for (std::uint32_t shard = 0; shard < settings.shards; ++shard) {
    if (const Status status = WriteShard(settings, shard); !status.ok()) return Fail(status);
    if (OnTerminal() && !globals.json) {
      std::fprintf(stderr, "\r%u of %u shards\033[K", shard + 1, settings.shards);
    }
  }
  if (OnTerminal() && !globals.json) std::fprintf(stderr, "\n");
  const std::string spec = settings.dir + "/spec.textproto";
  std::ofstream out(spec, std::ios::binary);
  out << SpecFor(settings);
  out.close();
  if (!out) return Fail(spec + ": cannot be written");
  if (globals.json) {
    Json json;
    json["spec"] = spec;
    json["shards"] = settings.shards;
    json["rows"] = settings.rows;
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("%s\n", spec.c_str());
  }
  return kDone;
}

}  // namespace

void AddSynthCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* synth = app->add_subcommand("synth", "write a sample dataset and its spec");
  auto settings = std::make_shared<Settings>();
  synth->add_option("DIR", settings->dir, "folder to write")->required();
  synth->add_option("--kind", settings->kind, "image, tabular or text")
      ->check(CLI::IsMember({"image", "tabular", "text"}));
  synth->add_option("--shards", settings->shards, "files")->check(CLI::Range(1, 99999));
  synth->add_option("--rows", settings->rows, "records");
  synth->add_option("--floats", settings->floats, "values of a tabular row")
      ->check(CLI::Range(1, 1 << 20));
  synth->add_option("--seed", settings->seed, "of everything that is drawn");
  synth->add_option("--compression", settings->compression, "none, gzip or zlib")
      ->check(CLI::IsMember({"none", "gzip", "zlib"}));
  synth->callback([=] { *exit_code = Run(*globals, *settings); });
}

}  // namespace stoker::cli
