// Meter: the progress line of a tool on a terminal.
//
// Thread-safety: Add() from any thread; the rest by the owner. Blocking: never; a thread of its own
//   draws four times a second, and there is none where nothing is shown.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace stoker::cli {

class Meter {
 public:
  // `total`: bytes, or 0 where it is not known. The line is drawn at once.
  Meter(bool shown, std::string what, std::uint64_t total);
  // Draws the last state and leaves the line.
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void Add(std::uint64_t bytes) { done_.fetch_add(bytes, std::memory_order_relaxed); }
  double seconds() const;

 private:
  void Draw() const;

  const bool shown_;
  const std::string what_;
  const std::uint64_t total_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread drawer_;
};

}  // namespace stoker::cli
