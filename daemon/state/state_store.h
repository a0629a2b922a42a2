// StateStore: the folder in which a daemon keeps what a restart needs: for each open stream one
// file with its spec, seed and frozen manifest, and its lanes' journal.
//
//   STATE_DIR/lock                 held while the daemon runs
//   STATE_DIR/streams/NAME.stream  replaced as a whole: written beside, synced, renamed
//   STATE_DIR/streams/NAME.journal written in place (lane_journal.h)
//
// docs/formats/state.md is the format. A file that is torn or of another version is left alone,
// with a log line; the stream is then opened anew by whoever wants it.
//
// Ownership: owns the lock. Thread-safety: any thread. Blocking: Store() and Remove() wait for the
//   disk. Errors: kFailedPrecondition where another daemon holds the folder; kInternal with path
//   and errno text.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "shm/fd.h"
#include "stoker/v1/state.pb.h"

namespace stoker::state {

class StateStore {
 public:
  // Makes the folder (0700) if it is missing and takes its lock.
  static Result<std::unique_ptr<StateStore>> Open(const std::string& state_dir);

  // Replaces what is stored under the stream's name. When it returns, the disk has it.
  Status Store(const v1::StoredStream& stream);
  // Forgets the stream; its journal stays for `stoker audit`.
  void Remove(const std::string& name);
  // Every whole file, by name.
  std::vector<v1::StoredStream> Load() const;

  std::string JournalPath(const std::string& name) const { return dir_ + "/" + name + ".journal"; }

 private:
  StateStore(std::string dir, shm::Fd lock, shm::Fd folder)
      : dir_(std::move(dir)), lock_(std::move(lock)), folder_(std::move(folder)) {}

  std::string StreamPath(const std::string& name) const { return dir_ + "/" + name + ".stream"; }

  const std::string dir_;
  const shm::Fd lock_;
  const shm::Fd folder_;  // synced after a rename
  std::mutex mutex_;
};

// The bytes of a stream's file, and back: kDataLoss where they are not all there or not ours.
std::string EncodeStored(const v1::StoredStream& stream);
Result<v1::StoredStream> DecodeStored(const std::string& bytes);

}  // namespace stoker::state
