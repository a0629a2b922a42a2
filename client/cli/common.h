// What the commands share: where the daemon is, how results and errors are printed.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/text.h"
#include "client/include/stoker/stoker.h"
#include "daemon/base/status.h"
#include "stoker/v1/stream.pb.h"

namespace stoker::cli {

using Json = nlohmann::ordered_json;

// Exit codes, as docs/reference/cli.md lists them.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;    // the command could not do what was asked
inline constexpr int kBadUsage = 2;  // the command line is wrong

struct Globals {
  std::string runtime_dir;  // empty: as the client library looks for it
  bool json = false;
};

// Prints "stoker: text" to stderr and returns kFailed.
int Fail(const std::string& text);
inline int Fail(const Status& status) { return Fail(status.message()); }

// The folder of the daemon's sockets, as the client library chooses it.
std::string RuntimeDir(const Globals& globals);

// Reads a spec file. Relative `files` are taken from the spec's own folder and made absolute.
Result<v1::StreamSpec> LoadSpec(const std::string& path);

// Whether a person watches stderr.
bool OnTerminal();

// `path` made absolute, without its `.` parts: as a stream's shards are called.
std::string AbsolutePath(const std::string& path);

// Rows of text, columns aligned.
class Table {
 public:
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void Print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Each command adds itself and runs when its subcommand was given.
void AddControlCommands(CLI::App* app, Globals* globals, int* exit_code);
void AddAuditCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddWhichCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddReadCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddInspectCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddSynthCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddFileCommands(CLI::App* app, Globals* globals, int* exit_code);
void AddReshardCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddPackCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddShuffleCheckCommand(CLI::App* app, Globals* globals, int* exit_code);
void AddBenchCommand(CLI::App* app, Globals* globals, int* exit_code);

}  // namespace stoker::cli
