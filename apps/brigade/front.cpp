// The program `brigade`: a small one without libtorch, so that a launcher starts immediately and
// needs little memory. It implements `launch`; for everything else it runs (exec) `brigade-core`,
// which is in the same folder.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/launch/shim.h"

namespace brigade::command {
namespace {

[[noreturn]] void become_core(char** argv) {
  const auto core = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "brigade-core";
  ::execv(core.c_str(), argv);
  throw Error(ErrorCode::kNotFound,
              base::str_cat("The program ", core.string(), ", which belongs in the same folder, ",
                            "was not started: ", std::strerror(errno)));
}

int run(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  if (command == launch::kShimCommand) return launch::run_shim(arguments);
  if (command == kLaunchCommand) return run_launch(arguments);
  check_no_empty_values({argv + 1, argv + argc});  // immediately: libtorch takes a while to load
  become_core(argv);
}

}  // namespace
}  // namespace brigade::command

int main(int argc, char** argv) {
  using namespace brigade::command;
  return run_program([&] { return run(argc, argv); });
}
