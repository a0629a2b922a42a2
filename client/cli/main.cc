// stoker: control commands and dataset tools.
#include <csignal>
#include <cstdio>

#include "client/cli/common.h"
#include "client/cli/why_command.h"

int main(int argc, char** argv) {
  using namespace stoker::cli;
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("Stoker's command line: streams of a daemon, and TFRecord files.");
  app.require_subcommand(1);
  app.set_version_flag("--version", STOKER_VERSION);
  app.fallthrough();
  Globals globals;
  app.add_option("--runtime-dir", globals.runtime_dir, "folder of the daemon's sockets")
      ->envname("STOKER_RUNTIME_DIR");
  app.add_flag("--json", globals.json, "print JSON");
  int exit_code = kDone;
  AddControlCommands(&app, &globals, &exit_code);
  AddAuditCommand(&app, &globals, &exit_code);
  AddWhichCommand(&app, &globals, &exit_code);
  AddReadCommand(&app, &globals, &exit_code);
  AddInspectCommand(&app, &globals, &exit_code);
  AddSynthCommand(&app, &globals, &exit_code);
  AddFileCommands(&app, &globals, &exit_code);
  AddReshardCommand(&app, &globals, &exit_code);
  AddPackCommand(&app, &globals, &exit_code);
  AddShuffleCheckCommand(&app, &globals, &exit_code);
  AddBenchCommand(&app, &globals, &exit_code);
  AddWhyCommand(&app, &globals, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kDone : kBadUsage;
  }
  // A full disk or a closed pipe must not look like a whole answer.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return Fail("stdout cannot be written");
  return exit_code;
}
