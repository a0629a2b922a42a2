#include "client/cli/external_shuffle.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/base/philox.h"
#include "daemon/io/byte_stream.h"
#include "daemon/io/framing.h"
#include "daemon/io/record_scanner.h"
#include "shm/fd.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kMostFiles = 256;
constexpr std::size_t kFileBuffer = 64 << 10;
constexpr std::size_t kKeyBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 40;

// A record in memory: where its payload lies.
struct Placed {
  std::uint64_t key;
  std::uint64_t offset;
  std::uint64_t length;
};

// Memory that a record takes while its file is sorted.
constexpr std::uint64_t kPerRecord = sizeof(Placed) + kKeyBytes + io::kFramingBytes;

}  // namespace

// Files for consecutive ranges of keys; each record with its key before it.
class ExternalShuffle::Deal {
 public:
  struct File {
    std::string path;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{nullptr, std::fclose};
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;  // of payloads
  };

  Deal(std::string prefix, std::uint64_t first_key, std::uint64_t last_key, std::uint64_t count)
      : prefix_(std::move(prefix)),
        first_(first_key),
        last_(last_key),
        span_(std::max<std::uint64_t>(1, (last_key - first_key) / count + (count > 1 ? 1 : 0))),
        files_(count) {}
  ~Deal() {
    for (const File& file : files_) {
      if (!file.path.empty()) unlink(file.path.c_str());
    }
  }

  Status Add(std::uint64_t key, std::span<const std::byte> payload) {
    const std::uint64_t number = std::min<std::uint64_t>((key - first_) / span_, files_.size() - 1);
    File& file = files_[number];
    if (file.file == nullptr) {
      file.path = prefix_ + std::to_string(number);
      file.file.reset(std::fopen(file.path.c_str(), "wbxe"));
      if (file.file == nullptr) return Failed(file);
      std::setvbuf(file.file.get(), nullptr, _IOFBF, kFileBuffer);
    }
    // Framed as any record, so that what the disk returns is checked.
    framed_.resize(io::kHeaderBytes + kKeyBytes);
    const std::uint64_t length = kKeyBytes + payload.size();
    std::memcpy(framed_.data(), &length, sizeof(length));
    const std::uint32_t length_crc = MaskCrc(Crc32c({framed_.data(), sizeof(length)}));
    std::memcpy(framed_.data() + sizeof(length), &length_crc, sizeof(length_crc));
    std::memcpy(framed_.data() + io::kHeaderBytes, &key, sizeof(key));
    framed_.insert(framed_.end(), payload.begin(), payload.end());
    const std::uint32_t crc = MaskCrc(Crc32c(std::span(framed_).subspan(io::kHeaderBytes)));
    const auto footer = std::as_bytes(std::span(&crc, 1));
    framed_.insert(framed_.end(), footer.begin(), footer.end());
    if (std::fwrite(framed_.data(), 1, framed_.size(), file.file.get()) != framed_.size()) {
      return Failed(file);
    }
    ++file.records;
    file.bytes += payload.size();
    return Status();
  }

  Status Close() {
    for (File& file : files_) {
      if (file.file != nullptr && std::fclose(file.file.release()) != 0) return Failed(file);
    }
    return Status();
  }

  std::size_t size() const { return files_.size(); }
  const File& file(std::size_t i) const { return files_[i]; }
  std::uint64_t first_key(std::size_t i) const { return first_ + span_ * i; }
  std::uint64_t last_key(std::size_t i) const {
    return i + 1 == files_.size() ? last_ : first_key(i) + (span_ - 1);
  }
  void Remove(std::size_t i) {
    if (!files_[i].path.empty()) unlink(files_[i].path.c_str());
    files_[i].path.clear();
  }

 private:
  static Status Failed(const File& file) {
    return Status(Code::kResourceExhausted, file.path + ": " + std::strerror(errno));
  }

  const std::string prefix_;
  const std::uint64_t first_;
  const std::uint64_t last_;
  const std::uint64_t span_;
  std::vector<File> files_;
  std::vector<std::byte> framed_;
};

ExternalShuffle::ExternalShuffle(std::string folder, std::uint64_t seed, std::uint64_t memory_bytes,
                                 std::uint64_t expected_bytes)
    : folder_(std::move(folder)),
      seed_(seed),
      memory_bytes_(std::clamp<std::uint64_t>(memory_bytes, 1, kMostMemory)) {
  // Half full on average, so that chance overfills hardly any.
  const std::uint64_t count = expected_bytes / (memory_bytes_ / 2 + 1) + 1;
  deal_ =
      std::make_unique<Deal>(folder_ + "/.shuffle-0-", 0, UINT64_MAX, std::min(count, kMostFiles));
}

ExternalShuffle::~ExternalShuffle() = default;

Status ExternalShuffle::Add(std::span<const std::byte> payload) {
  RowRandom draws(seed_, static_cast<std::int64_t>(number_++), 0, 0);
  return deal_->Add(draws.Next64(), payload);
}

Status ExternalShuffle::Drain(const Sink& sink) { return DrainDeal(deal_.get(), sink); }

Status ExternalShuffle::DrainDeal(Deal* deal, const Sink& sink) {
  STOKER_TRY(deal->Close());
  for (std::size_t i = 0; i < deal->size(); ++i) {
    const auto& file = deal->file(i);
    if (file.records == 0) continue;
    STOKER_TRY(
        Emit(file.path, file.records, file.bytes, deal->first_key(i), deal->last_key(i), sink));
    deal->Remove(i);
  }
  return Status();
}

Status ExternalShuffle::Emit(const std::string& path, std::uint64_t records, std::uint64_t bytes,
                             std::uint64_t first_key, std::uint64_t last_key, const Sink& sink) {
  auto source = io::FileSource::Open(path, "");
  if (!source.ok()) return source.status();
  const std::uint64_t size = bytes + records * (kKeyBytes + io::kFramingBytes);
  auto stream = io::OpenStream(*source, size, io::Compression::kPlain);
  io::RecordScanner::Options options;
  options.max_record_bytes = UINT64_MAX / 4;
  io::RecordScanner scanner(stream.get(), options);
  io::RecordScanner::Record record;
  const std::uint64_t need = bytes + records * kPerRecord;
  const bool again = need > memory_bytes_ && records > 1 && last_key > first_key;
  std::unique_ptr<Deal> deal;
  std::vector<Placed> placed;
  scratch_.clear();
  if (again) {
    scratch_.shrink_to_fit();
    const std::uint64_t count = std::min(need / (memory_bytes_ / 2 + 1) + 2, kMostFiles);
    deal = std::make_unique<Deal>(folder_ + "/.shuffle-" + std::to_string(++files_made_) + "-",
                                  first_key, last_key, count);
  } else {
    placed.reserve(records);
    scratch_.reserve(bytes);
  }
  std::uint64_t found = 0;
  while (scanner.Next(&record) && record.fault == FaultClass::kNone &&
         record.payload.size() >= kKeyBytes) {
    const auto key = io::LoadLittle<std::uint64_t>(record.payload.data());
    const auto payload = record.payload.subspan(kKeyBytes);
    ++found;
    if (again) {
      STOKER_TRY(deal->Add(key, payload));
      continue;
    }
    placed.push_back({key, scratch_.size(), payload.size()});
    scratch_.insert(scratch_.end(), payload.begin(), payload.end());
  }
  if (found != records) {
    return Status(Code::kDataLoss, path + ": the disk does not return what was written to it");
  }
  if (again) return DrainDeal(deal.get(), sink);
  // Stable: should two keys be equal, the order is still one.
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.key < b.key; });
  for (const Placed& one : placed) {
    STOKER_TRY(sink(std::span<const std::byte>(scratch_).subspan(one.offset, one.length)));
  }
  return Status();
}

}  // namespace stoker::cli
