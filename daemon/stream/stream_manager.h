// StreamManager: the daemon's streams by name: opened once, shared, closed, lingering.
//
// Opening is idempotent: an equal spec answers the running stream, and callers that come while it
// is being opened wait for the same outcome. A differing spec replaces a stream that no live
// consumer holds. A stream that an attach opened lives while it has a consumer and
// `delivery.linger_ms` longer; one opened over control lives until it is closed.
//
// Thread-safety: any thread. Blocking: Open() and Explain() read shards.
// Errors: kInvalidArgument from the spec's checks; kPermissionDenied where the opener may not name
//   files; kFailedPrecondition naming the differing field and its holder; kResourceExhausted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/stream/stream.h"

namespace stoker::stream {

struct ManagerLimits {
  std::uint32_t streams = 256;
};

class StreamManager {
 public:
  StreamManager(Environment environment, ManagerLimits limits);
  ~StreamManager();

  // `spec` is as the user wrote it. Paths must be absolute.
  Result<std::shared_ptr<Stream>> Open(v1::StreamSpec spec, uid_t opener, bool by_attach,
                                       bool* created);
  Result<std::shared_ptr<Stream>> Find(const std::string& name);
  Status Close(const std::string& name);
  Result<v1::ExplainResponse> Explain(v1::StreamSpec spec, uid_t opener, std::uint32_t world_size);
  std::vector<v1::StreamStatus> List() const;
  // What is written in the journal of a stream, open or closed. kNotFound where there is none.
  Result<v1::AuditResponse> Audit(const std::string& name) const;

  // A consumer left `stream`: starts its linger where that was the last one.
  void ConsumerLeft(const std::shared_ptr<Stream>& stream);
  // Opens again, in the background, what an earlier daemon had open. Whoever asks for such a stream
  // meanwhile waits for it.
  void Restore();
  // Refuses new consumers and begins no new batch; waits until consumers have taken the batches
  // that are ready, or for `most`.
  void Drain(std::chrono::milliseconds most);
  // Ends all streams and refuses new ones. What is stored of them stays.
  void Shutdown(const Status& why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<Stream> stream;
    UserQuota::Hold hold;
    bool opening = true;
    Clock::time_point closes_at = Clock::time_point::max();
  };

  Status Check(v1::StreamSpec* spec, uid_t opener) const;
  Result<std::shared_ptr<Stream>> OpenNew(std::unique_lock<std::mutex>* lock, v1::StreamSpec spec,
                                          uid_t opener, bool by_attach);
  void CloseLingering(std::stop_token stop);
  void RestoreOne(const v1::StoredStream& stored);
  void Forget(const std::string& name);

  Environment environment_;
  const ManagerLimits limits_;
  std::stop_source opening_stop_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Entry> entries_;
  bool down_ = false;
  bool draining_ = false;
  std::map<std::string, std::string> not_restored_;  // stream: why
  std::uint64_t lingers_ = 0;  // deadlines set, so that the housekeeper looks again
  std::jthread housekeeper_;
  std::jthread restorer_;
};

}  // namespace stoker::stream
