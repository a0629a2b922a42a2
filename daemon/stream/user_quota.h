// UserQuota: what each user's streams and lanes may take of a daemon that several users share.
//
// A stream counts for the user that opened it, a lane's slots and bytes for the user whose consumer
// it was made for. What is taken is given back when the hold goes.
//
// Thread-safety: any thread. Blocking: never. Errors: kResourceExhausted naming the limit and the
//   user, with the numbers. Holds may outlive the quota.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "daemon/base/status.h"

namespace stoker::stream {

struct UserLimits {  // 0: no limit
  std::uint32_t streams = 0;
  std::uint32_t slots = 0;
  std::uint64_t bytes = 0;
};

class UserQuota {
 public:
  using Hold = std::shared_ptr<const void>;

  explicit UserQuota(UserLimits limits) : state_(std::make_shared<State>()) {
    state_->limits = limits;
  }

  Result<Hold> TakeStream(uid_t uid);
  Result<Hold> TakeLane(uid_t uid, std::uint32_t slots, std::uint64_t bytes);

 private:
  struct Used {
    std::uint64_t streams = 0;
    std::uint64_t slots = 0;
    std::uint64_t bytes = 0;
  };
  struct State {
    UserLimits limits;
    std::mutex mutex;
    std::map<uid_t, Used> used;
  };
  Hold Take(uid_t uid, const Used& more);

  std::shared_ptr<State> state_;
};

}  // namespace stoker::stream
