#include "daemon/stream/stream_manager.h"

#include <google/protobuf/util/message_differencer.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "config/spec.h"
#include "daemon/base/log.h"

namespace stoker::stream {
namespace {

// The first field in which two specs differ, as a path.
std::string Difference(const v1::StreamSpec& a, const v1::StreamSpec& b) {
  std::string report;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(a, b)) return {};
  return report.substr(0, report.find('\n'));
}

v1::AuditResponse ToAudit(const std::vector<state::JournalRecord>& records,
                          const std::vector<std::uint64_t>& open) {
  v1::AuditResponse response;
  const auto effective = state::EffectiveRows(records);
  std::map<std::uint64_t, std::size_t> newest;  // run: its last entry
  for (std::size_t i = 0; i < records.size(); ++i) newest[records[i].run] = i;
  if (!records.empty()) response.set_forgotten(records.front().number - 1);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const state::JournalRecord& record = records[i];
    auto* entry = response.add_entry();
    entry->set_number(record.number);
    entry->set_run(record.run);
    entry->set_rank(record.rank);
    entry->set_world_size(record.world_size);
    entry->set_batch(record.batch);
    entry->set_broadcast(record.broadcast);
    entry->set_epoch(record.epoch);
    entry->set_start_row(record.start_row);
    entry->set_delivered_row(record.delivered_row);
    entry->set_released_row(record.released_row);
    entry->set_rows(record.rows);
    entry->set_batches(record.batches);
    entry->set_skipped(record.skipped);
    entry->set_replaced(record.replaced);
    entry->set_ended(record.ended);
    entry->set_began_unix_ms(record.began_unix_ms);
    entry->set_effective_row(effective[i]);
    entry->set_open(newest[record.run] == i &&
                    std::find(open.begin(), open.end(), record.run) != open.end());
  }
  return response;
}

}  // namespace

StreamManager::StreamManager(Environment environment, ManagerLimits limits)
    : environment_(std::move(environment)), limits_(limits) {
  housekeeper_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "linger");
    CloseLingering(stop);
  });
}

StreamManager::~StreamManager() { Shutdown(Status(Code::kUnavailable, "the daemon stops")); }

Status StreamManager::Check(v1::StreamSpec* spec, uid_t opener) const {
  STOKER_TRY(config::FillDefaults(spec));
  STOKER_TRY(config::ValidateSpec(*spec));
  for (const auto& source : spec->source()) {
    for (const auto& file : source.files()) {
      if (!file.starts_with('/')) {
        return Status(Code::kInvalidArgument, "source.files: \"" + file +
                                                  "\" is relative; the daemon has another working "
                                                  "directory, so give the absolute path");
      }
    }
  }
  if (environment_.data_roots.empty() && opener != geteuid() && opener != 0) {
    return Status(Code::kPermissionDenied,
                  "uid " + std::to_string(opener) + " may not name files to a daemon of uid " +
                      std::to_string(geteuid()) +
                      " that has no data_root; set data_root in its configuration");
  }
  return Status();
}

Result<std::shared_ptr<Stream>> StreamManager::Open(v1::StreamSpec spec, uid_t opener,
                                                    bool by_attach, bool* created) {
  *created = false;
  STOKER_TRY(Check(&spec, opener));
  std::unique_lock lock(mutex_);
  while (true) {
    if (down_ || draining_) return Status(Code::kUnavailable, "the daemon is shutting down");
    const auto it = entries_.find(spec.name());
    if (it == entries_.end()) break;
    if (it->second.opening) {
      changed_.wait(lock);
      continue;
    }
    const std::shared_ptr<Stream> running = it->second.stream;
    const std::string difference = Difference(running->spec(), spec);
    if (difference.empty()) {
      it->second.closes_at = Clock::time_point::max();
      return running;
    }
    if (const auto holder = running->AnyHolder()) {
      return Status(Code::kFailedPrecondition,
                    "stream \"" + spec.name() + "\" runs with another spec (" + difference +
                        ") and pid " + std::to_string(holder->pid) + ", uid " +
                        std::to_string(holder->uid) +
                        " reads it; choose another name, or stop that consumer");
    }
    entries_.erase(it);
    Forget(spec.name());
    lock.unlock();
    running->Close(Status(Code::kUnavailable, "replaced by another spec"));
    lock.lock();
  }
  *created = true;
  return OpenNew(&lock, std::move(spec), opener, by_attach);
}

Result<std::shared_ptr<Stream>> StreamManager::OpenNew(std::unique_lock<std::mutex>* lock,
                                                       v1::StreamSpec spec, uid_t opener,
                                                       bool by_attach) {
  if (entries_.size() >= limits_.streams) {
    return Status(Code::kResourceExhausted, "limits.streams: " + std::to_string(limits_.streams) +
                                                " streams are open; close one, or raise it");
  }
  const std::string name = spec.name();
  UserQuota::Hold hold;
  if (environment_.quota != nullptr) {
    auto taken = environment_.quota->TakeStream(opener);
    if (!taken.ok()) return Status(taken.status()).Annotate("stream \"" + name + "\"");
    hold = std::move(*taken);
  }
  auto stream = std::make_shared<Stream>(std::move(spec), opener, by_attach, &environment_);
  entries_[name].stream = stream;
  entries_[name].hold = std::move(hold);
  lock->unlock();
  Status opened = stream->Open(opening_stop_.get_token());
  lock->lock();
  changed_.notify_all();
  if (down_ && opened.ok()) opened = Status(Code::kUnavailable, "the daemon is shutting down");
  if (!opened.ok()) {
    entries_.erase(name);
    LogLimited(LogLevel::kError, "open-failed", "stream \"" + name + "\": " + opened.message());
    return opened;
  }
  Entry& entry = entries_[name];
  entry.opening = false;
  // An opener that dies before it attaches leaves a stream that lingers like any other.
  if (by_attach) {
    entry.closes_at =
        Clock::now() + std::chrono::milliseconds(stream->spec().delivery().linger_ms());
    ++lingers_;
  }
  LogInfo("stream \"" + name + "\" is open");
  return stream;
}

Result<std::shared_ptr<Stream>> StreamManager::Find(const std::string& name) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (down_ || draining_) return Status(Code::kUnavailable, "the daemon is shutting down");
    const auto it = entries_.find(name);
    if (it == entries_.end()) {
      const auto why = not_restored_.find(name);
      return Status(Code::kNotFound,
                    "no stream \"" + name + "\"" +
                        (why == not_restored_.end() ? "" : " since the restart: " + why->second) +
                        "; open it with `stoker open`, or attach with its spec");
    }
    if (!it->second.opening) return it->second.stream;
    changed_.wait(lock);
  }
}

Status StreamManager::Close(const std::string& name) {
  auto found = Find(name);
  if (!found.ok()) return found.status();
  {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(name);
    if (it != entries_.end() && it->second.stream == *found) {
      Forget(name);
      entries_.erase(it);
    }
  }
  (*found)->Close(Status(Code::kNotFound, "stream \"" + name + "\" was closed"));
  LogInfo("stream \"" + name + "\" is closed");
  return Status();
}

Result<v1::ExplainResponse> StreamManager::Explain(v1::StreamSpec spec, uid_t opener,
                                                   std::uint32_t world_size) {
  STOKER_TRY(Check(&spec, opener));
  auto stream = std::make_shared<Stream>(std::move(spec), opener, false, &environment_);
  STOKER_TRY(stream->Open(opening_stop_.get_token()));
  return stream->Explain(world_size);
}

std::vector<v1::StreamStatus> StreamManager::List() const {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) streams.push_back(entry.stream);
  }
  std::vector<v1::StreamStatus> out;
  for (const auto& stream : streams) out.push_back(stream->Describe());
  return out;
}

void StreamManager::ConsumerLeft(const std::shared_ptr<Stream>& stream) {
  if (!stream->opened_by_attach() || stream->consumers() > 0) return;
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(stream->spec().name());
  if (it == entries_.end() || it->second.stream != stream) return;
  it->second.closes_at =
      Clock::now() + std::chrono::milliseconds(stream->spec().delivery().linger_ms());
  ++lingers_;
  changed_.notify_all();
}

void StreamManager::CloseLingering(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    auto next = Clock::time_point::max();
    std::vector<std::shared_ptr<Stream>> over;
    const auto now = Clock::now();
    for (auto it = entries_.begin(); it != entries_.end();) {
      Entry& entry = it->second;
      const bool due = !entry.opening && entry.closes_at <= now;
      if (due && entry.stream->consumers() > 0) entry.closes_at = Clock::time_point::max();
      if (due && entry.stream->consumers() == 0) {
        over.push_back(entry.stream);
        Forget(it->first);
        it = entries_.erase(it);
        continue;
      }
      next = std::min(next, entry.closes_at);
      ++it;
    }
    if (!over.empty()) {
      lock.unlock();
      for (const auto& stream : over) {
        stream->Close(Status(Code::kUnavailable, "its linger is over"));
        LogInfo("stream \"" + stream->spec().name() + "\" is closed: nobody reads it");
      }
      lock.lock();
      continue;
    }
    const auto wait = std::min(next, now + std::chrono::hours(1));
    const std::uint64_t seen = lingers_;
    changed_.wait_until(lock, stop, wait, [&] { return lingers_ != seen; });
  }
}

Result<v1::AuditResponse> StreamManager::Audit(const std::string& name) const {
  if (environment_.state == nullptr) {
    return Status(Code::kFailedPrecondition, "this daemon has no state directory, so no journal");
  }
  if (name.empty() || name.find('/') != std::string::npos) {
    return Status(Code::kInvalidArgument, "\"" + name + "\" is not a stream's name");
  }
  std::vector<std::uint64_t> open;
  {
    std::shared_ptr<Stream> stream;
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(name);
    if (it != entries_.end()) stream = it->second.stream;
    if (stream != nullptr) open = stream->OpenRuns();
  }
  auto records = state::ReadJournal(environment_.state->JournalPath(name));
  if (!records.ok()) {
    if (records.status().code() != Code::kNotFound) return records.status();
    return Status(Code::kNotFound, "stream \"" + name + "\" has no journal");
  }
  return ToAudit(*records, open);
}

void StreamManager::Forget(const std::string& name) {
  if (environment_.state != nullptr) environment_.state->Remove(name);
}

void StreamManager::Restore() {
  if (environment_.state == nullptr) return;
  std::vector<v1::StoredStream> stored = environment_.state->Load();
  if (stored.empty()) return;
  {
    // Their names are taken before the first client can ask.
    std::lock_guard lock(mutex_);
    for (const auto& stream : stored) {
      Entry& entry = entries_[stream.spec().name()];
      entry.stream = std::make_shared<Stream>(stream.spec(), stream.opener(),
                                              stream.opened_by_attach(), &environment_);
      if (environment_.quota == nullptr) continue;
      // A limit that was lowered does not close what runs.
      auto taken = environment_.quota->TakeStream(stream.opener());
      if (taken.ok()) entry.hold = std::move(*taken);
    }
  }
  restorer_ = std::jthread([this, stored = std::move(stored)] {
    pthread_setname_np(pthread_self(), "restore");
    for (const auto& stream : stored) RestoreOne(stream);
  });
}

void StreamManager::RestoreOne(const v1::StoredStream& stored) {
  const std::string& name = stored.spec().name();
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(name);
    if (down_ || it == entries_.end()) return;
    stream = it->second.stream;
  }
  v1::StreamSpec spec = stored.spec();
  Status opened = Check(&spec, stored.opener());
  if (opened.ok()) opened = stream->Open(opening_stop_.get_token(), &stored);
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  if (down_) return;
  if (!opened.ok()) {
    // What is stored stays: the data may be back at the next start.
    entries_.erase(name);
    not_restored_[name] = opened.message();
    LogError("stream \"" + name + "\" could not be opened again: " + opened.message());
    return;
  }
  Entry& entry = entries_[name];
  entry.opening = false;
  if (stored.opened_by_attach()) {
    entry.closes_at =
        Clock::now() + std::chrono::milliseconds(stored.spec().delivery().linger_ms());
    ++lingers_;
  }
  LogInfo("stream \"" + name + "\" is open again");
}

void StreamManager::Drain(std::chrono::milliseconds most) {
  constexpr auto kLook = std::chrono::milliseconds(2);
  std::vector<std::shared_ptr<Stream>> streams;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [name, entry] : entries_) streams.push_back(entry.stream);
  }
  for (const auto& stream : streams) stream->Drain();
  const auto deadline = Clock::now() + most;
  while (Clock::now() < deadline &&
         std::any_of(streams.begin(), streams.end(), [](const auto& s) { return s->HasReady(); })) {
    std::this_thread::sleep_for(kLook);
  }
}

void StreamManager::Shutdown(const Status& why) {
  std::map<std::string, Entry> entries;
  {
    std::lock_guard lock(mutex_);
    down_ = true;
    entries.swap(entries_);
  }
  opening_stop_.request_stop();
  changed_.notify_all();
  if (restorer_.joinable()) restorer_.join();
  for (const auto& [name, entry] : entries) entry.stream->Close(why);
}

}  // namespace stoker::stream
