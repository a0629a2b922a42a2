#include "daemon/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <mutex>

namespace stoker {
namespace {

constexpr int kLinesPerMinute = 10;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "stokerd", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *logger;
}

struct Allowance {
  std::chrono::steady_clock::time_point minute_start;
  int lines = 0;
  unsigned long long held_back = 0;
};

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view text) { Logger().log(ToSpdlog(level), "{}", text); }

void LogLimited(LogLevel level, std::string_view log_class, std::string_view text) {
  static std::mutex mutex;
  static std::map<std::string, Allowance, std::less<>> allowances;
  unsigned long long reported = 0;
  {
    std::lock_guard lock(mutex);
    auto it = allowances.find(log_class);
    if (it == allowances.end()) it = allowances.emplace(std::string(log_class), Allowance{}).first;
    Allowance& a = it->second;
    const auto now = std::chrono::steady_clock::now();
    if (a.lines == 0 || now - a.minute_start >= std::chrono::minutes(1)) {
      a.minute_start = now;
      a.lines = 0;
      reported = std::exchange(a.held_back, 0);
    }
    if (a.lines >= kLinesPerMinute) {
      ++a.held_back;
      return;
    }
    ++a.lines;
  }
  if (reported > 0) {
    Logger().log(ToSpdlog(level), "{}: {} more lines of this kind were held back", log_class,
                 reported);
  }
  Logger().log(ToSpdlog(level), "{}: {}", log_class, text);
}

}  // namespace stoker
