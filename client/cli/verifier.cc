#include "client/cli/verifier.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "client/cli/tool_input.h"
#include "daemon/io/framing.h"

namespace stoker::cli {
namespace {

// Fits a core's second-level cache beside what else lives there: the kernel copies into it and the
// checksum reads it from there.
constexpr std::uint64_t kPiece = 256 << 10;

struct Placed {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t number = 0;
};

// What a thread reuses from piece to piece.
struct Scratch {
  std::vector<std::byte> piece = std::vector<std::byte>(kPiece + io::kHeaderBytes);
  std::vector<std::byte> rest = std::vector<std::byte>(kPiece);
  std::vector<Placed> placed;
};

// One file, shared by the threads that work on it.
class Job {
 public:
  explicit Job(ToolInput input) : input_(std::move(input)) {
    found_.path = input_.path;
    found_.compression = CompressionWord(input_.compression);
    found_.bytes = input_.size;
  }

  // A doubtful or compressed file is one piece.
  std::uint64_t pieces() const {
    if (input_.doubt || input_.compression != io::Compression::kPlain) return 1;
    return std::max<std::uint64_t>(1, (input_.size + kPiece - 1) / kPiece);
  }

  void Work(std::uint64_t piece, Scratch* scratch, Meter* meter) {
    if (input_.doubt || input_.compression != io::Compression::kPlain) {
      Tail(0, 0, std::nullopt);
      meter->Add(input_.size);
      return;
    }
    WorkPiece(piece, scratch);
    meter->Add(std::min(kPiece, input_.size - std::min(input_.size, piece * kPiece)));
  }

  VerifiedFile Finish() {
    std::sort(found_.damage.begin(), found_.damage.end(), [](const Loss& a, const Loss& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.record < b.record;
    });
    return std::move(found_);
  }

 private:
  void WorkPiece(std::uint64_t piece, Scratch* scratch) {
    const std::uint64_t begin = piece * kPiece;
    const std::uint64_t end = std::min(begin + kPiece, input_.size);
    std::unique_lock lock(mutex_);
    const bool wanted = !ended_ && next_.offset < end;
    lock.unlock();
    std::span<const std::byte> bytes;
    std::string error;
    if (wanted) {
      // Twelve bytes more: a header may lie across the end.
      const auto want = static_cast<std::size_t>(
          std::min<std::uint64_t>(end + io::kHeaderBytes, input_.size) - begin);
      bytes = std::span<const std::byte>(scratch->piece).first(want);
      auto n = input_.source.ReadAt(begin, std::span(scratch->piece).first(want));
      if (!n.ok()) error = n.status().message();
      if (n.ok() && *n < want) error = "the file has become shorter";
    }
    lock.lock();
    turn_.wait(lock, [&] { return walked_ == piece; });
    scratch->placed.clear();
    bool broken = false;
    if (wanted && !ended_ && error.empty()) broken = Walk(begin, end, bytes, &scratch->placed);
    if (wanted && !ended_ && !error.empty()) {
      found_.damage.push_back({next_.number, begin, 0, FaultClass::kReadError, error});
      ended_ = true;
    }
    if (broken) ended_ = true;
    const Placed at = next_;
    const auto before = before_;
    ++walked_;
    lock.unlock();
    turn_.notify_all();
    Check(begin, bytes, scratch);
    if (broken) Tail(at.offset, at.number, before);
  }

  // The lengths of the records that begin in [begin, end). True where the structure breaks.
  bool Walk(std::uint64_t begin, std::uint64_t end, std::span<const std::byte> bytes,
            std::vector<Placed>* placed) {
    while (next_.offset < end) {
      const std::uint64_t left = input_.size - next_.offset;
      if (left < io::kHeaderBytes) return true;
      const io::RecordHeader header = io::ParseHeader(bytes.data() + (next_.offset - begin));
      if (!header.crc_good || header.length > left || header.length + io::kFramingBytes > left ||
          header.length > kMaxRecordBytes) {
        return true;
      }
      placed->push_back({next_.offset, header.length, next_.number});
      before_ = next_.offset;
      next_.offset += header.length + io::kFramingBytes;
      ++next_.number;
    }
    return false;
  }

  void Check(std::uint64_t begin, std::span<const std::byte> bytes, Scratch* scratch) {
    std::uint64_t good = 0;
    for (const Placed& record : scratch->placed) {
      const std::uint64_t at = record.offset + io::kHeaderBytes - begin;
      bool right;
      if (at + record.length + io::kFooterBytes <= bytes.size()) {
        const auto payload = bytes.subspan(at, record.length);
        right = MaskCrc(Crc32c(payload)) ==
                io::LoadLittle<std::uint32_t>(payload.data() + payload.size());
      } else {
        const std::uint64_t here = at < bytes.size() ? bytes.size() - at : 0;
        right = CheckAcross(record, bytes.subspan(at, std::min(here, record.length)), scratch);
      }
      // Storage sometimes lies once.
      if (!right) right = CheckAcross(record, {}, scratch);
      good += right ? 1 : 0;
      if (right) continue;
      const std::scoped_lock lock(mutex_);
      found_.damage.push_back({record.number, record.offset, record.length + io::kFramingBytes,
                               FaultClass::kPayloadCrcMismatch, ""});
    }
    const std::scoped_lock lock(mutex_);
    found_.records += good;
  }

  // A record of which the first bytes of the payload are at hand.
  bool CheckAcross(const Placed& record, std::span<const std::byte> here, Scratch* scratch) {
    RunningCrc crc;
    crc.Update(here);
    std::uint64_t done = here.size();
    while (done < record.length) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, record.length - done));
      const auto out = std::span(scratch->rest).first(want);
      auto n = input_.source.ReadAt(record.offset + io::kHeaderBytes + done, out);
      if (!n.ok() || *n < want) return false;
      crc.Update(out);
      done += want;
    }
    std::byte stored[io::kFooterBytes];
    auto n = input_.source.ReadAt(record.offset + io::kHeaderBytes + record.length, stored);
    return n.ok() && *n == sizeof(stored) && io::LoadLittle<std::uint32_t>(stored) == crc.masked();
  }

  // The file from where its structure breaks, or a whole one that is not plain.
  void Tail(std::uint64_t offset, std::uint64_t number, std::optional<std::uint64_t> before) {
    Salvager rest(input_.source, input_.size, input_.compression, offset, number, before);
    std::vector<Loss> losses;
    std::span<const std::byte> payload;
    std::uint64_t reached = 0;
    std::uint64_t beyond = 0;
    std::size_t seen = 0;
    bool out_of_reach = false;
    while (rest.Next(&payload, &losses)) {
      for (; seen < losses.size(); ++seen) out_of_reach |= EndsReading(losses[seen]);
      ++(out_of_reach ? beyond : reached);
    }
    const std::scoped_lock lock(mutex_);
    found_.records += reached;
    found_.beyond += beyond;
    if (input_.doubt && beyond == 0) {
      found_.error = *input_.doubt;
      return;
    }
    found_.damage.insert(found_.damage.end(), losses.begin(), losses.end());
  }

  static bool EndsReading(const Loss& loss) {
    return loss.fault != FaultClass::kPayloadCrcMismatch &&
           loss.fault != FaultClass::kRecordTooLarge;
  }

  ToolInput input_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t walked_ = 0;  // pieces
  Placed next_;               // the next record's header
  std::optional<std::uint64_t> before_;
  bool ended_ = false;
  VerifiedFile found_;
};

// Hands pieces out, file by file.
class Pieces {
 public:
  Pieces(const std::vector<std::string>& paths, std::vector<VerifiedFile>* out)
      : paths_(paths), jobs_(paths.size()), left_(paths.size()), out_(out) {}

  struct Piece {
    std::shared_ptr<Job> job;
    std::size_t file = 0;
    std::uint64_t number = 0;
  };

  bool Take(Piece* piece) {
    const std::scoped_lock lock(mutex_);
    while (file_ < paths_.size()) {
      if (next_ == 0) {
        auto input = ToolInput::Open(paths_[file_]);
        if (!input.ok()) {
          (*out_)[file_].path = paths_[file_];
          (*out_)[file_].error = input.status().message();
          ++file_;
          continue;
        }
        jobs_[file_] = std::make_shared<Job>(std::move(*input));
        left_[file_] = jobs_[file_]->pieces();
      }
      *piece = {jobs_[file_], file_, next_++};
      if (next_ == jobs_[file_]->pieces()) {
        next_ = 0;
        ++file_;
      }
      return true;
    }
    return false;
  }

  void Done(const Piece& piece) {
    const std::scoped_lock lock(mutex_);
    if (--left_[piece.file] > 0) return;
    (*out_)[piece.file] = piece.job->Finish();
    jobs_[piece.file].reset();
  }

 private:
  const std::vector<std::string>& paths_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> jobs_;
  std::vector<std::uint64_t> left_;
  std::vector<VerifiedFile>* const out_;
  std::size_t file_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace

std::vector<VerifiedFile> Verify(const std::vector<std::string>& paths, unsigned threads,
                                 Meter* meter) {
  std::vector<VerifiedFile> out(paths.size());
  Pieces pieces(paths, &out);
  const auto work = [&] {
    pthread_setname_np(pthread_self(), "stoker-verify");
    Scratch scratch;
    Pieces::Piece piece;
    while (pieces.Take(&piece)) {
      piece.job->Work(piece.number, &scratch, meter);
      pieces.Done(piece);
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) workers.emplace_back(work);
  workers.clear();
  return out;
}

}  // namespace stoker::cli
