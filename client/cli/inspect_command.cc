// inspect: what TFRecord files hold, told by reading every record.
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "client/cli/common.h"
#include "daemon/base/sha256.h"
#include "daemon/example/example_parser.h"
#include "daemon/image/jpeg.h"
#include "daemon/io/byte_stream.h"
#include "daemon/io/manifest.h"
#include "daemon/io/record_scanner.h"

namespace stoker::cli {
namespace {

struct Feature {
  example::Kind kind = example::Kind::kNone;
  bool mixed = false;
  bool jpeg = false;
  std::uint64_t with_value = 0;
  std::uint64_t no_kind = 0;
  std::uint64_t min_count = UINT64_MAX;
  std::uint64_t max_count = 0;
};

struct Inspected {
  std::string path;
  std::string compression = "none";
  std::string kind = "empty";
  std::string error;
  std::string digest;
  std::uint64_t records = 0;
  std::map<std::string, Feature> features;
};

const char* ShortKind(const Feature& feature) {
  if (feature.mixed) return "mixed";
  switch (feature.kind) {
    case example::Kind::kBytes:
      return "bytes";
    case example::Kind::kFloat:
      return "float";
    case example::Kind::kInt64:
      return "int64";
    default:
      return "none";
  }
}

void Count(const std::vector<example::FeatureSummary>& found, Inspected* out) {
  for (const auto& [name, span] : found) {
    Feature& feature = out->features[name];
    if (span.kind == example::Kind::kNone) {
      ++feature.no_kind;
      continue;
    }
    feature.mixed = feature.mixed || (feature.with_value > 0 && feature.kind != span.kind);
    feature.kind = span.kind;
    if (feature.with_value++ == 0 && span.kind == example::Kind::kBytes) {
      example::ForEachBytes(span, [&feature](std::span<const std::byte> value) {
        feature.jpeg = image::FormatName(value) == std::string_view("JPEG");
      });
    }
    feature.min_count = std::min<std::uint64_t>(feature.min_count, span.count);
    feature.max_count = std::max<std::uint64_t>(feature.max_count, span.count);
  }
}

Inspected Inspect(const std::string& path) {
  Inspected out;
  out.path = path;
  auto source = io::FileSource::Open(path, "");
  if (!source.ok()) {
    out.error = source.status().message();
    return out;
  }
  const std::uint64_t size = source->Identity().ok() ? source->Identity()->size : 0;
  auto compression = io::Resolve(*source, size, io::Compression::kAuto, path);
  Sha256 digest;
  if (!compression.ok()) {
    out.error = compression.status().message();
    out.kind = "other";
    out.digest = Sha256::Hex(digest.Finish());
    return out;
  }
  if (*compression != io::Compression::kPlain) out.compression = io::CompressionName(*compression);
  auto stream = io::OpenStream(*source, size, *compression);
  io::RecordScanner::Options options;
  if (*compression == io::Compression::kPlain) options.stream_bytes = size;
  io::RecordScanner scanner(stream.get(), options);
  io::RecordScanner::Record record;
  std::vector<example::FeatureSummary> found;
  std::map<example::RecordKind, std::uint64_t> kinds;
  while (scanner.Next(&record)) {
    if (record.fault != FaultClass::kNone && out.error.empty()) {
      out.error = path + ": record " + std::to_string(record.number) + ", offset " +
                  std::to_string(record.offset) + ": " + std::string(FaultName(record.fault));
    }
    if (record.fault != FaultClass::kNone) continue;
    ++out.records;
    digest.UpdateLittle(std::uint64_t{record.payload.size()});
    digest.Update(record.payload);
    ++kinds[example::Summarize(record.payload, &found)];
    Count(found, &out);
  }
  if (const auto& damage = scanner.damage(); damage && out.error.empty()) {
    out.error = path + ": record " + std::to_string(damage->record) + ", offset " +
                std::to_string(damage->offset) + ": " + std::string(FaultName(damage->fault)) +
                ": " + damage->detail;
  }
  out.digest = Sha256::Hex(digest.Finish());
  if (out.records > 0) {
    out.kind = kinds[example::RecordKind::kOther] > 0             ? "other"
               : kinds[example::RecordKind::kSequenceExample] > 0 ? "SequenceExample"
                                                                  : "Example";
    if (out.kind == "other") out.features.clear();
  }
  return out;
}

Json ToJson(const Inspected& file) {
  Json out;
  out["path"] = file.path;
  out["compression"] = file.compression;
  out["records"] = file.records;
  out["records_sha256"] = file.digest;
  out["kind"] = file.kind;
  Json& features = out["features"] = Json::object();
  for (const auto& [name, feature] : file.features) {
    Json one;
    // A feature that never has a value has no kind and no counts.
    const bool valued = feature.with_value > 0;
    one["kind"] = valued ? Json(ShortKind(feature)) : Json(nullptr);
    one["min_count"] = valued ? Json(feature.min_count) : Json(nullptr);
    one["max_count"] = valued ? Json(feature.max_count) : Json(nullptr);
    one["records_with_value"] = feature.with_value;
    one["records_with_no_kind"] = feature.no_kind;
    features[name] = std::move(one);
  }
  out["error"] = file.error.empty() ? Json(nullptr) : Json(file.error);
  return out;
}

void PrintTable(const Inspected& file) {
  std::printf("%s: %" PRIu64 " records, %s, %s\n", file.path.c_str(), file.records,
              file.kind.c_str(), file.compression.c_str());
  if (!file.error.empty()) std::printf("  error: %s\n", file.error.c_str());
  Table table;
  if (!file.features.empty()) table.Row({"  FEATURE", "KIND", "VALUES", "RECORDS", "WITHOUT KIND"});
  for (const auto& [name, feature] : file.features) {
    const std::uint64_t least = feature.with_value > 0 ? feature.min_count : 0;
    table.Row({"  " + name, ShortKind(feature),
               least == feature.max_count
                   ? std::to_string(least)
                   : std::to_string(least) + " to " + std::to_string(feature.max_count),
               std::to_string(feature.with_value), std::to_string(feature.no_kind)});
  }
  table.Print();
}

// Text with what protobuf text format needs escaped.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) {
      char octal[8];
      std::snprintf(octal, sizeof(octal), "\\%03o",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += octal;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A tensor's name may hold fewer characters than a feature's.
std::string TensorName(const std::string& feature) {
  std::string name = feature.substr(0, 128);
  for (char& c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '/' || c == '-';
    if (!good) c = '_';
  }
  if (name.empty() || name == "row_ids" || name == "valid") name += "_";
  return name;
}

std::string SuggestTensor(const std::string& tensor, const std::string& name,
                          const Feature& feature, std::uint64_t records) {
  std::string text = "tensor { name: " + Quoted(tensor) + " feature: " + Quoted(name);
  if (feature.jpeg && feature.min_count == 1 && feature.max_count == 1 &&
      feature.with_value == records) {
    return text +
           " dtype: FLOAT32 image {} op { resize { height: 224 width: 224 } }"
           " op { scale { factor: 0.00392156862745098 } } }\n";
  }
  text += feature.kind == example::Kind::kInt64   ? " dtype: INT64"
          : feature.kind == example::Kind::kFloat ? " dtype: FLOAT32"
                                                  : " dtype: BYTES";
  const bool fixed = feature.min_count == feature.max_count && feature.with_value == records;
  if (!fixed) return text + " ragged {} }\n";
  if (feature.max_count != 1) text += " shape: " + std::to_string(feature.max_count);
  return text + " }\n";
}

int Suggest(const std::vector<Inspected>& files) {
  std::map<std::string, Feature> all;
  std::uint64_t records = 0;
  std::string text = "name: \"suggested\"\nsource {\n";
  for (const auto& file : files) {
    if (!file.error.empty()) return Fail(file.error);
    if (file.kind != "Example" && file.kind != "empty") {
      return Fail(file.path + ": holds " + file.kind + ", not Examples");
    }
    text += "  files: " + Quoted(std::filesystem::absolute(file.path).string()) + "\n";
    records += file.records;
    for (const auto& [name, feature] : file.features) {
      Feature& sum = all[name];
      sum.mixed = sum.mixed || feature.mixed ||
                  (sum.with_value > 0 && feature.with_value > 0 && sum.kind != feature.kind);
      if (feature.with_value > 0) sum.kind = feature.kind;
      sum.jpeg = sum.with_value > 0 ? sum.jpeg && feature.jpeg : feature.jpeg;
      sum.with_value += feature.with_value;
      sum.min_count = std::min(sum.min_count, feature.min_count);
      sum.max_count = std::max(sum.max_count, feature.max_count);
    }
  }
  text += "}\n";
  constexpr std::size_t kMostTensors = 256;
  std::set<std::string> names;
  for (const auto& [name, feature] : all) {
    if (feature.with_value == 0) continue;
    const char* left_out = feature.mixed                  ? "is stored as more than one kind"
                           : !example::IsUtf8(name)       ? "is not UTF-8"
                           : names.size() == kMostTensors ? "is over 256 tensors"
                                                          : nullptr;
    if (left_out != nullptr) {
      std::fprintf(stderr, "stoker: feature %s is left out: it %s\n", Quoted(name).c_str(),
                   left_out);
      continue;
    }
    // Two features may look alike in a tensor's few characters.
    std::string tensor = TensorName(name);
    for (int n = 2; names.contains(tensor); ++n) {
      tensor = TensorName(name).substr(0, 120) + "." + std::to_string(n);
    }
    names.insert(tensor);
    text += SuggestTensor(tensor, name, feature, records);
  }
  if (names.empty()) return Fail("no feature holds a value: there is nothing to deliver");
  text += "batch { size: 32 }\norder { repeat: 1 }\n";
  std::printf("%s", text.c_str());
  return kDone;
}

int Run(const Globals& globals, const std::vector<std::string>& paths, bool suggest) {
  std::vector<Inspected> files;
  bool failed = false;
  for (const auto& path : paths) {
    files.push_back(Inspect(path));
    failed = failed || !files.back().error.empty();
  }
  if (suggest) return Suggest(files);
  if (globals.json) {
    Json out;
    out["files"] = Json::array();
    for (const auto& file : files) out["files"].push_back(ToJson(file));
    std::printf("%s\n", out.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    for (const auto& file : files) PrintTable(file);
  }
  return failed ? kFailed : kDone;
}

}  // namespace

void AddInspectCommand(CLI::App* app, Globals* globals, int* exit_code) {
  auto* inspect = app->add_subcommand("inspect", "what TFRecord files hold");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto suggest = std::make_shared<bool>(false);
  inspect->add_option("FILE", *paths, "TFRecord files")->required();
  inspect->add_flag("--suggest", *suggest, "print a stream spec that reads them");
  inspect->callback([=] { *exit_code = Run(*globals, *paths, *suggest); });
}

}  // namespace stoker::cli
