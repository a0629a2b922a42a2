#include "client/cli/meter.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>

#include "client/cli/text.h"

namespace stoker::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(250);
constexpr int kBarWidth = 24;

}  // namespace

Meter::Meter(bool shown, std::string what, std::uint64_t total)
    : shown_(shown), what_(std::move(what)), total_(total) {
  if (!shown_) return;
  Draw();
  drawer_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "stoker-meter");
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, kRedraw, [] { return false; });
      if (!stop.stop_requested()) Draw();
    }
  });
}

Meter::~Meter() {
  if (!shown_) return;
  drawer_.request_stop();
  drawer_.join();
  Draw();
  std::fprintf(stderr, "\n");
}

double Meter::seconds() const {
  const auto passed = std::chrono::steady_clock::now() - began_;
  return std::max(std::chrono::duration<double>(passed).count(), 1e-9);
}

void Meter::Draw() const {
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  const double rate = static_cast<double>(done) / seconds();
  std::string line = what_;
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    const int filled = static_cast<int>(share * kBarWidth);
    line += " [" + std::string(static_cast<std::size_t>(filled), '#') +
            std::string(static_cast<std::size_t>(kBarWidth - filled), '-') + "] " +
            std::to_string(static_cast<int>(share * 100)) + " %";
  }
  line += "  " + Bytes(done) + "  " + Bytes(static_cast<std::uint64_t>(rate)) + "/s";
  if (done > 0 && done < total_) {
    line += "  " + std::to_string(static_cast<int>(static_cast<double>(total_ - done) / rate) + 1) +
            " s left";
  }
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
}

}  // namespace stoker::cli
