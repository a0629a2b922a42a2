#include "daemon/state/state_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "daemon/base/crc32c.h"
#include "daemon/base/log.h"

namespace stoker::state {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'O', 'K', 'S', 'T', 'R', 'M'};
constexpr std::uint32_t kVersion = 1;
constexpr std::string_view kSuffix = ".stream";

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t crc;    // of the message
  std::uint64_t bytes;  // of the message
};
static_assert(sizeof(Header) == 24);

Status FromErrno(const std::string& what, int error) {
  return Status(Code::kInternal, what + ": " + std::strerror(error));
}

std::uint32_t Crc(std::string_view bytes) {
  return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

Status WriteAll(int fd, const std::string& bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno("write " + path, errno);
    done += static_cast<std::size_t>(n);
  }
  return Status();
}

}  // namespace

std::string EncodeStored(const v1::StoredStream& stream) {
  const std::string message = stream.SerializeAsString();
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.crc = Crc(message);
  header.bytes = message.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + message;
}

Result<v1::StoredStream> DecodeStored(const std::string& bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return Status(Code::kDataLoss, "it is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return Status(Code::kDataLoss, "it is not a stream's state");
  }
  if (header.version != kVersion) {
    return Status(Code::kDataLoss, "it has version " + std::to_string(header.version) +
                                       ", this daemon reads " + std::to_string(kVersion));
  }
  const std::string_view message = std::string_view(bytes).substr(sizeof(header));
  if (message.size() != header.bytes) return Status(Code::kDataLoss, "it is cut short");
  if (Crc(message) != header.crc) return Status(Code::kDataLoss, "its checksum is wrong");
  v1::StoredStream stream;
  if (!stream.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Status(Code::kDataLoss, "it cannot be parsed");
  }
  return stream;
}

Result<std::unique_ptr<StateStore>> StateStore::Open(const std::string& state_dir) {
  if (state_dir.empty()) {
    return Status(Code::kFailedPrecondition, "no state directory is known; give --state-dir");
  }
  const std::string dir = state_dir + "/streams";
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return FromErrno("state directory " + dir, error.value());
  if (chmod(dir.c_str(), 0700) != 0) return FromErrno("chmod " + dir, errno);
  const std::string lock_path = state_dir + "/lock";
  shm::Fd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return FromErrno("lock file " + lock_path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno("lock file " + lock_path, errno);
    return Status(Code::kFailedPrecondition, "another daemon keeps its state in " + state_dir +
                                                 "; choose another --state-dir");
  }
  shm::Fd folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return FromErrno("state directory " + dir, errno);
  return std::unique_ptr<StateStore>(new StateStore(dir, std::move(lock), std::move(folder)));
}

Status StateStore::Store(const v1::StoredStream& stream) {
  const std::string path = StreamPath(stream.spec().name());
  const std::string beside = path + ".tmp";
  const std::string bytes = EncodeStored(stream);
  std::lock_guard lock(mutex_);
  shm::Fd fd(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return FromErrno("open " + beside, errno);
  STOKER_TRY(WriteAll(fd.get(), bytes, beside));
  if (fsync(fd.get()) != 0) return FromErrno("fsync " + beside, errno);
  if (rename(beside.c_str(), path.c_str()) != 0) return FromErrno("rename " + beside, errno);
  if (fsync(folder_.get()) != 0) return FromErrno("fsync " + dir_, errno);
  return Status();
}

void StateStore::Remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (unlink(StreamPath(name).c_str()) == 0) (void)fsync(folder_.get());
}

std::vector<v1::StoredStream> StateStore::Load() const {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir_, error), end; it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (path.ends_with(kSuffix)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<v1::StoredStream> streams;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    auto stream = DecodeStored(bytes);
    if (stream.ok() && path != StreamPath(stream->spec().name())) {
      stream = Status(Code::kDataLoss, "it is of another stream");
    }
    if (!stream.ok()) {
      LogWarning("state: " + path + " is left alone: " + stream.status().message());
      continue;
    }
    streams.push_back(std::move(*stream));
  }
  return streams;
}

}  // namespace stoker::state
