#include "config/daemon_config.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/text_format.h"

namespace stoker::config {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// systemd's folder for the service, the system's for root, else the user's own.
std::string Folder(const char* service_variable, const std::string& system,
                   const char* user_variable, const std::string& under_home) {
  // A unit with several folders gets them all, with colons between; the first is ours.
  if (const std::string dirs = Environment(service_variable); !dirs.empty()) {
    return dirs.substr(0, dirs.find(':'));
  }
  if (geteuid() == 0) return system;
  if (const std::string dir = Environment(user_variable); !dir.empty()) return dir + "/stoker";
  const std::string home = Environment("HOME");
  if (home.empty() || under_home.empty()) return "";
  return home + "/" + under_home + "/stoker";
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void AddChanged(const Message& a, const Message& b, const std::string& prefix,
                std::vector<std::string>* out) {
  const auto* type = a.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string path = prefix + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      AddChanged(a.GetReflection()->GetMessage(a, field), b.GetReflection()->GetMessage(b, field),
                 path + ".", out);
      continue;
    }
    google::protobuf::util::MessageDifferencer differencer;
    if (!differencer.CompareWithFields(a, b, {field}, {field})) out->push_back(path);
  }
}

Status Wrong(const std::string& what) { return Status(Code::kInvalidArgument, what); }

}  // namespace

std::string DefaultRuntimeDir() {
  const std::string dir = Folder("RUNTIME_DIRECTORY", "/run/stoker", "XDG_RUNTIME_DIR", "");
  return dir.empty() ? "/tmp/stoker-" + std::to_string(geteuid()) : dir;
}

Result<v1::DaemonConfig> LoadDaemonConfig(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Wrong(path + ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  v1::DaemonConfig config;
  STOKER_TRY(ParseText(text, path, "a daemon configuration", "docs/reference/daemon.md", &config));
  return config;
}

std::string DaemonConfigText(const v1::DaemonConfig& config) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return text;
}

std::vector<std::string> ChangedFields(const v1::DaemonConfig& a, const v1::DaemonConfig& b) {
  std::vector<std::string> changed;
  AddChanged(a, b, "", &changed);
  return changed;
}

Status FillDaemonDefaults(v1::DaemonConfig* config, bool make_folders) {
  if (config->runtime_dir().empty()) config->set_runtime_dir(DefaultRuntimeDir());
  if (config->cache_dir().empty()) {
    config->set_cache_dir(
        Folder("CACHE_DIRECTORY", "/var/cache/stoker", "XDG_CACHE_HOME", ".cache"));
  }
  if (config->state_dir().empty()) {
    config->set_state_dir(
        Folder("STATE_DIRECTORY", "/var/lib/stoker", "XDG_STATE_HOME", ".local/state"));
  }
  if (config->has_workers() && (config->workers() < 1 || config->workers() > 1024)) {
    return Wrong("workers is 1 to 1024");
  }
  auto* limits = config->mutable_limits();
  if (!limits->has_streams()) limits->set_streams(256);
  if (!limits->has_consumers()) limits->set_consumers(1024);
  if (!limits->has_consumers_per_user()) limits->set_consumers_per_user(256);
  if (!limits->has_spec_bytes()) limits->set_spec_bytes(131072);
  if (limits->spec_bytes() > 131072) return Wrong("limits.spec_bytes is at most 131072");

  if (make_folders && !config->cache_dir().empty()) {
    std::error_code error;
    std::filesystem::create_directories(config->cache_dir(), error);
    if (error) config->clear_cache_dir();
  }
  return Status();
}

}  // namespace stoker::config
