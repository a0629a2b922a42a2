#include "client/cli/ceilings.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>

#include "client/cli/tool_input.h"
#include "daemon/base/crc32c.h"

namespace stoker::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMemory = 128 << 20;
constexpr std::size_t kHot = 16 << 10;
constexpr std::size_t kPiece = 256 << 10;
constexpr std::uint64_t kMostRead = 512 << 20;
constexpr std::size_t kParsed = 32 << 20;
constexpr int kRounds = 4000;
constexpr int kTries = 3;

// Keeps what was computed from being left out.
std::atomic<std::uint64_t> g_sink{0};

template <typename F>
double BestSeconds(int tries, F&& f) {
  double best = 1e30;
  for (int i = 0; i < tries; ++i) {
    const auto began = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count());
  }
  return std::max(best, 1e-9);
}

long Futex(std::atomic<std::uint32_t>* word, int op, std::uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), op, value, nullptr, nullptr, 0);
}

struct PingPong {
  alignas(64) std::atomic<std::uint32_t> ping;
  alignas(64) std::atomic<std::uint32_t> pong;
};

void Ring(std::atomic<std::uint32_t>* word, std::uint32_t value) {
  word->store(value, std::memory_order_release);  // paired with the load of Await()
  Futex(word, FUTEX_WAKE, 1);
}

void Await(std::atomic<std::uint32_t>* word, std::uint32_t value) {
  while (true) {
    const std::uint32_t seen = word->load(std::memory_order_acquire);
    if (seen == value) return;
    Futex(word, FUTEX_WAIT, seen);
  }
}

}  // namespace

double MemcpyRate() {
  std::vector<std::byte> from(kMemory, std::byte{1});
  std::vector<std::byte> to(kMemory, std::byte{2});
  const double seconds = BestSeconds(kTries, [&] { std::memcpy(to.data(), from.data(), kMemory); });
  g_sink += static_cast<std::uint64_t>(to[kMemory / 2]);
  return static_cast<double>(kMemory) / seconds;
}

double ColdCrcRate() {
  const std::vector<std::byte> bytes(2 * kMemory, std::byte{3});
  return static_cast<double>(bytes.size()) / BestSeconds(kTries, [&] { g_sink += Crc32c(bytes); });
}

double HotCrcRate() {
  const std::vector<std::byte> bytes(kHot, std::byte{4});
  return static_cast<double>(bytes.size()) * kRounds / BestSeconds(kTries, [&] {
           for (int i = 0; i < kRounds; ++i) g_sink += Crc32c(bytes);
         });
}

double FutexRoundTrip() {
  void* memory =
      mmap(nullptr, sizeof(PingPong), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto* both = new (memory) PingPong{};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    munmap(memory, sizeof(PingPong));
    return 0;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would ring it
    if (getppid() != parent) _exit(1);
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      Await(&both->ping, i);
      Ring(&both->pong, i);
    }
    _exit(0);
  }
  std::vector<double> seconds;
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    const auto began = Clock::now();
    Ring(&both->ping, i);
    Await(&both->pong, i);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  int status = 0;
  waitpid(child, &status, 0);
  munmap(memory, sizeof(PingPong));
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

Result<double> PreadRate(const std::vector<std::string>& paths) {
  std::vector<std::byte> piece(kPiece);
  std::uint64_t bytes = 0;
  Status failed;
  // The first run brings the files into the page cache.
  const double seconds = BestSeconds(kTries + 1, [&] {
    bytes = 0;
    for (const auto& path : paths) {
      if (bytes >= kMostRead) break;
      auto source = io::FileSource::Open(path, "");
      if (!source.ok()) failed = source.status();
      if (!source.ok()) return;
      for (std::uint64_t at = 0; bytes < kMostRead;) {
        auto n = source->ReadAt(at, piece);
        if (!n.ok()) failed = n.status();
        if (!n.ok() || *n == 0) break;
        at += *n;
        bytes += *n;
      }
    }
  });
  if (!failed.ok()) return failed;
  return static_cast<double>(bytes) / seconds;
}

Result<ParseRate> ParseLoopRate(const std::vector<std::string>& paths,
                                const example::FeaturePlan& plan) {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> ends;
  for (const auto& path : paths) {
    if (bytes.size() >= kParsed) break;
    auto input = ToolInput::Open(path);
    if (!input.ok()) return input.status();
    Salvager reader(input->source, input->size, input->compression);
    std::span<const std::byte> payload;
    std::vector<Loss> losses;
    while (bytes.size() < kParsed && reader.Next(&payload, &losses)) {
      bytes.insert(bytes.end(), payload.begin(), payload.end());
      ends.push_back(bytes.size());
    }
  }
  if (ends.empty()) return Status(Code::kInvalidArgument, "there are no records to parse");
  example::ExampleParser parser(&plan);
  std::vector<example::FeatureSpan> found(plan.size());
  std::vector<std::int64_t> whole;
  std::vector<float> real;
  example::ParseCounters counters;
  std::string detail;
  const double seconds = BestSeconds(kTries, [&] {
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      const auto record = std::span<const std::byte>(bytes).subspan(begin, end - begin);
      begin = end;
      if (parser.Parse(record, found, &counters, &detail) != FaultClass::kNone) continue;
      for (const auto& span : found) {
        if (span.kind == example::Kind::kInt64) {
          whole.resize(std::max<std::size_t>(whole.size(), span.count));
          example::CopyInt64(span, whole.data());
        } else if (span.kind == example::Kind::kFloat) {
          real.resize(std::max<std::size_t>(real.size(), span.count));
          example::CopyFloat(span, real.data());
        }
      }
    }
  });
  return ParseRate{static_cast<double>(ends.size()) / seconds,
                   static_cast<double>(bytes.size()) / seconds};
}

}  // namespace stoker::cli
