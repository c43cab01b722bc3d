// The program `brigade`: a small one without libtorch, so that a launcher starts immediately and
// needs little memory. It implements `launch`, and `new` and `setup`, which must work before there
// is a libtorch; for everything else it runs (exec) `brigade-core`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/installation.h"
#include "apps/brigade/libtorch_folder.h"
#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/launch/shim.h"

namespace brigade::command {
namespace {

/// An installed `brigade-core` has no path of libtorch, which each user has where they want.
void let_core_find_libtorch() {
  constexpr const char* kPath = "LD_LIBRARY_PATH";
  const std::string libraries = (find_libtorch() / "lib").string();
  const auto before = base::environment(kPath);
  if (before && before->starts_with(libraries)) return;  // a `brigade` that `brigade` has started
  ::setenv(kPath, base::str_cat(libraries, before ? ":" : "", before.value_or("")).c_str(), 1);
}

[[noreturn]] void become_core(char** argv) {
  const std::string core = core_program().string();
  if (is_installed()) let_core_find_libtorch();
  ::execv(core.c_str(), argv);
  throw Error(ErrorCode::kNotFound, "The program ", core,
              ", which belongs to this one, was not started: ", std::strerror(errno));
}

int run(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  if (command == launch::kShimCommand) return launch::run_shim(arguments);
  if (command == kLaunchCommand) return run_launch(arguments);
  if (command == kNewCommand) return run_new(arguments);
  if (command == kSetupCommand) return run_setup(arguments);
  check_no_empty_values({argv + 1, argv + argc});  // immediately: libtorch takes a while to load
  become_core(argv);
}

}  // namespace

std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  check_no_empty_values(arguments);
  try {
    std::ranges::reverse(arguments);  // as the parser takes them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw UsageError(parser_text(error), ". See: ", app.get_name(), " --help");
  }
  return std::nullopt;
}

}  // namespace brigade::command

int main(int argc, char** argv) {
  using namespace brigade::command;
  return run_program([&] { return run(argc, argv); });
}
