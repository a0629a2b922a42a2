#include "client/cli/target.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "client/cli/control_client.h"

namespace stoker::cli {
namespace {

constexpr auto kGlance = std::chrono::seconds(5);
constexpr std::size_t kLongestName = 128;  // of a stream

bool LooksLikeFile(const std::string& argument) {
  if (argument.find('/') != std::string::npos) return true;
  for (const char* end : {".textproto", ".txtpb", ".pbtxt", ".textpb"}) {
    if (argument.ends_with(end)) return true;
  }
  return false;
}

Status Ask(const Globals& globals, const std::string& name, v1::GetStreamResponse* response) {
  v1::GetStreamRequest request;
  request.set_name(name);
  ControlClient client(globals);
  return client.Call(&v1::Control::Stub::GetStream, request, response, kGlance);
}

}  // namespace

Result<Target> FindTarget(const Globals& globals, const std::string& argument) {
  bool is_file = LooksLikeFile(argument);
  if (!is_file && std::filesystem::is_regular_file(argument)) {
    v1::GetStreamResponse running;
    is_file = !Ask(globals, argument, &running).ok();
  }
  if (!is_file) return Target{argument, std::nullopt};
  auto spec = LoadSpec(argument);
  if (!spec.ok()) return spec.status();
  return Target{spec->name(), std::move(*spec)};
}

Result<v1::StreamSpec> SpecOf(const Globals& globals, const Target& target) {
  if (target.spec) return *target.spec;
  v1::GetStreamResponse response;
  STOKER_TRY(Ask(globals, target.name, &response));
  v1::StreamSpec spec = response.spec();
  spec.mutable_order()->set_seed(response.stream().seed());
  return spec;
}

Result<Target> PrivateCopy(const Globals& globals, const Target& target,
                           const std::string& purpose) {
  auto spec = SpecOf(globals, target);
  if (!spec.ok()) return spec.status();
  const std::string tail = "." + purpose + "." + std::to_string(getpid());
  spec->set_name(target.name.substr(0, kLongestName - tail.size()) + tail);
  if (spec->has_order()) spec->mutable_order()->clear_repeat();
  return Target{spec->name(), std::move(*spec)};
}

void CloseCopy(const Globals& globals, const Target& copy) {
  v1::CloseStreamRequest request;
  request.set_name(copy.name);
  v1::CloseStreamResponse response;
  ControlClient client(globals);
  // Where that fails the stream ends by itself, after its linger.
  (void)client.Call(&v1::Control::Stub::CloseStream, request, &response, kGlance);
}

}  // namespace stoker::cli
