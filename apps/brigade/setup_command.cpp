#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/installation.h"
#include "apps/brigade/libtorch_folder.h"

namespace brigade::command {
namespace {

constexpr const char* kSetupExamples = R"(Examples:
  sudo brigade setup
      for all users, in /opt/brigade
  brigade setup
      for you, in ~/.local/share/brigade
  brigade setup --dir /data/brigade && export BRIGADE_TORCH_DIR=/data/brigade/site/torch
      in another folder

The download is 530 MB, for CPUs; 500 MB are kept. It needs python3 with pip, and does not change your Python. If
libtorch is there already, the command does nothing.)";

}  // namespace

int run_setup(std::vector<std::string> arguments) {
  CLI::App app(kSetupDescription, "brigade setup");
  std::string folder;
  FlagGroup(app).add("--dir", folder,
                     "Where to (default: /opt/brigade for root, else ~/.local/share/brigade)");
  app.footer(kSetupExamples);
  if (const auto code = parse_arguments(app, std::move(arguments))) return *code;
  if (folder.empty()) folder = setup_folder().string();
  const std::string script = torch_installer().string();
  if (!std::filesystem::exists(script)) {
    throw UsageError(
        "setup is for an installed Brigade; in a checkout, `./dev setup` downloads libtorch");
  }
  const char* const command[] = {"python3",      "-B",      script.c_str(),
                                 folder.c_str(), "brigade", nullptr};
  ::execvp(command[0], const_cast<char* const*>(command));
  throw UsageError("python3 was not started: ", std::strerror(errno),
                   ". Install it with pip (Debian: apt install python3-pip)");
}

}  // namespace brigade::command
