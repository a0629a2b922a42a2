// Log: one line a person can read, to stderr; at most ten lines of a class a minute.
//
// A class is a short fixed word ("bad-record"). Past the limit lines are counted and the count is
// reported with the first line of the next minute, so that a million warnings cost a million
// increments and ten lines.
//
// Thread-safety: any thread. Blocking: one write to stderr.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are left out. Default kInfo.
void SetLogLevel(LogLevel level);

void Log(LogLevel level, std::string_view text);

// As Log(), rate-limited by `log_class`.
void LogLimited(LogLevel level, std::string_view log_class, std::string_view text);

inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }

}  // namespace stoker
