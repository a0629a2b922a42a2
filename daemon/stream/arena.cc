#include "daemon/stream/arena.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

namespace stoker::stream {
namespace {

// What Boost.Interprocess maps: any object with a handle and a mode.
class Mappable {
 public:
  explicit Mappable(int fd) : fd_(fd) {}
  boost::interprocess::mapping_handle_t get_mapping_handle() const {
    return boost::interprocess::ipcdetail::mapping_handle_from_file_handle(fd_);
  }
  boost::interprocess::mode_t get_mode() const { return boost::interprocess::read_write; }

 private:
  int fd_;
};

}  // namespace

Result<Arena> Arena::Make(std::uint64_t slot_bytes, std::uint32_t slots, bool exclusive) {
  const auto seals = exclusive ? shm::Seals::kFinal : shm::Seals::kReadOnlyLater;
  Arena arena;
  arena.slot_bytes_ = slot_bytes;
  arena.slots_ = slots;
  arena.exclusive_ = exclusive;
  arena.fd_ = shm::MakeMemfd("stoker-arena", slot_bytes * slots, seals);
  if (!arena.fd_.valid()) {
    return Status(Code::kResourceExhausted,
                  "an arena of " + std::to_string(slot_bytes * slots) +
                      " bytes could not be made: " + std::strerror(errno));
  }
  try {
    arena.region_ = boost::interprocess::mapped_region(
        Mappable(arena.fd_.get()), boost::interprocess::read_write, 0, slot_bytes * slots);
  } catch (const std::exception& error) {
    return Status(Code::kResourceExhausted, "an arena of " + std::to_string(slot_bytes * slots) +
                                                " bytes could not be mapped: " + error.what());
  }
  return arena;
}

Status Arena::Reserve(std::uint32_t slot) {
  const auto offset = static_cast<off_t>(slot * slot_bytes_);
  while (fallocate(fd_.get(), 0, offset, static_cast<off_t>(slot_bytes_)) != 0) {
    if (errno == EINTR) continue;
    return Status(Code::kResourceExhausted, "no memory for a slot of " +
                                                std::to_string(slot_bytes_) +
                                                " bytes: " + std::strerror(errno));
  }
  return Status();
}

Result<shm::Fd> Arena::Share() {
  shm::Fd fd =
      exclusive_ ? shm::Fd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)) : shm::ReopenReadOnly(fd_.get());
  if (fd.valid()) return fd;
  return Status(Code::kInternal, std::string("sharing an arena: ") + std::strerror(errno));
}

}  // namespace stoker::stream
