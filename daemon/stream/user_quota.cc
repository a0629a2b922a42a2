#include "daemon/stream/user_quota.h"

#include <string>

namespace stoker::stream {
namespace {

Status Over(const char* limit, uid_t uid, const char* what, std::uint64_t used, std::uint64_t more,
            std::uint64_t most) {
  return Status(Code::kResourceExhausted, std::string("limits.") + limit + ": uid " +
                                              std::to_string(uid) + " has " + std::to_string(used) +
                                              " " + what + ", asks for " + std::to_string(more) +
                                              " more, and may have " + std::to_string(most));
}

}  // namespace

// REQUIRES: the mutex is held.
UserQuota::Hold UserQuota::Take(uid_t uid, const Used& more) {
  Used& used = state_->used[uid];
  used.streams += more.streams;
  used.slots += more.slots;
  used.bytes += more.bytes;
  const auto give_back = [state = state_, uid, more](const void*) {
    std::lock_guard lock(state->mutex);
    const auto it = state->used.find(uid);
    it->second.streams -= more.streams;
    it->second.slots -= more.slots;
    it->second.bytes -= more.bytes;
    if (it->second.streams == 0 && it->second.slots == 0) state->used.erase(it);
  };
  return Hold(state_.get(), give_back);
}

Result<UserQuota::Hold> UserQuota::TakeStream(uid_t uid) {
  std::lock_guard lock(state_->mutex);
  const std::uint64_t used = state_->used[uid].streams;
  if (state_->limits.streams > 0 && used >= state_->limits.streams) {
    return Over("streams_per_user", uid, "streams", used, 1, state_->limits.streams);
  }
  return Take(uid, {1, 0, 0});
}

Result<UserQuota::Hold> UserQuota::TakeLane(uid_t uid, std::uint32_t slots, std::uint64_t bytes) {
  std::lock_guard lock(state_->mutex);
  const Used used = state_->used[uid];
  const UserLimits& limits = state_->limits;
  if (limits.slots > 0 && used.slots + slots > limits.slots) {
    return Over("slots_per_user", uid, "slots", used.slots, slots, limits.slots);
  }
  if (limits.bytes > 0 && (bytes > limits.bytes || used.bytes > limits.bytes - bytes)) {
    return Over("bytes_per_user", uid, "bytes of arenas", used.bytes, bytes, limits.bytes);
  }
  return Take(uid, {0, slots, bytes});
}

}  // namespace stoker::stream
