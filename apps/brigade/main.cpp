#include <c10/util/Exception.h>
#include <torch/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/brigade/commands.h"
#include "apps/brigade/config_file.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/launch_flags.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

// Of all commands, also those that `brigade` does itself.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

Command* chosen(const Commands& commands) {
  for (const auto& command : commands) {
    if (command->parser().parsed()) return command.get();
  }
  return nullptr;
}

std::vector<std::string> flags_of(const CLI::App& parser) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : parser.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string see_help(const Command* command) {
  return base::str_cat(" See: brigade", command == nullptr ? "" : " ",
                       command == nullptr ? "" : command->parser().get_name(), " --help");
}

// The flag that programs of TensorFlow and PyTorch call `word`; of those that the command has.
std::optional<std::string> renamed(const std::string& word, const std::vector<std::string>& flags) {
  static const std::map<std::string, std::string> kNames = {
      {"--lr", "--learning-rate"},
      {"--num-epochs", "--epochs"},
      {"--num_epochs", "--epochs"},
      {"--train_steps", "--steps"},
      {"--logdir", "--model-dir"},
      {"--log-dir", "--model-dir"},
      {"--checkpoint-dir", "--model-dir"},
      {"--train_dir", "--model-dir"},
      {"--gpus", "--devices"},
      {"--distribution_strategy", "--strategy"},
      {"--num-workers", "--map-threads"}};
  const auto found = kNames.find(word);
  const bool is_flag_here =
      found != kNames.end() && std::find(flags.begin(), flags.end(), found->second) != flags.end();
  return is_flag_here ? std::optional(found->second) : std::nullopt;
}

// The error for what the parser does not know: a misspelled flag, or an unexpected argument.
UsageError unexpected(const CLI::App& app, const Commands& commands) {
  const std::vector<std::string> rest = app.remaining(true);
  const std::string word = rest.empty() ? "" : rest.front().substr(0, rest.front().find('='));
  const Command* command = chosen(commands);
  const CLI::App& parser = command == nullptr ? app : command->parser();
  const std::vector<std::string> flags = flags_of(parser);
  auto near = renamed(word, flags);
  if (!near) near = base::nearest(word, flags);
  return UsageError(word.rfind('-', 0) == 0 ? "unknown flag " : "unexpected argument ",
                    base::shortened(word),
                    near ? base::str_cat("; did you mean ", *near, "?") : ".", see_help(command));
}

// Called before the parser, whose message names no command.
void check_command_name(int argc, char** argv, const CLI::App& app) {
  const std::vector<std::string> names = command_names(app);
  if (argc < 2) {
    throw UsageError("no command is given. Known: " + base::join(names, ", ") +
                     ". See: brigade --help");
  }
  const std::string first = argv[1];
  if (first.empty() || first.front() != '-') check_choice("command", first, names);
}

// Help and the version end as "errors" of the parser, with exit code 0.
int parse(CLI::App& app, const Commands& commands, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as the parser takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ExtrasError&) {
    throw unexpected(app, commands);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw UsageError(parser_text(error), ".", see_help(chosen(commands)));
  }
  return -1;
}

int run(int argc, char** argv) {
  CLI::App app("Distributed training on libtorch", "brigade");
  app.set_version_flag("--version",
                       base::str_cat("brigade ", BRIGADE_VERSION, ", libtorch ", TORCH_VERSION));
  app.footer("Examples:\n  brigade devices\n  brigade train --help");
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Commands commands;
  commands.push_back(make_train_command(app));
  commands.push_back(make_sweep_command(app));
  commands.push_back(make_evaluate_command(app));
  commands.push_back(make_extract_command(app));
  commands.push_back(make_inspect_command(app));
  commands.push_back(make_report_command(app));
  commands.push_back(make_top_command(app));
  commands.push_back(make_bench_command(app));
  commands.push_back(make_data_command(app));
  commands.push_back(make_devices_command(app));
  commands.push_back(make_doctor_command(app));
  commands.push_back(make_ps_command(app));
  commands.push_back(make_completion_command(app));
  commands.push_back(make_help_command(app));
  LaunchFlags launch_flags;  // for the help; `brigade` does it itself
  launch_flags.add_to(*app.add_subcommand(kLaunchCommand, kLaunchDescription));
  for (const auto& [name, description] :
       {std::pair(kNewCommand, kNewDescription), std::pair(kSetupCommand, kSetupDescription)}) {
    app.add_subcommand(name, description);
  }
  check_command_name(argc, argv, app);
  check_no_empty_values({argv + 1, argv + argc});
  const int ended = parse(app, commands, with_config_file({argv + 1, argv + argc}));
  if (ended >= 0) return ended;
  Command* command = chosen(commands);
  return command == nullptr ? kUsage : command->run();
}

// With the errors that only this program knows.
int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const StoppedBySignal& stopped) {
    const std::string text = stopped.what();
    if (!text.empty()) std::cerr << "brigade: " << base::printable(text) << std::endl;
    return stopped.code();
  } catch (const c10::Error& error) {
    // libtorch appends a backtrace; the first line is for users.
    const std::string text = error.what_without_backtrace();
    return report_error(std::runtime_error(text.substr(0, text.find('\n'))));
  }
}

// libtorch's static destructors take its operators out of their registry one by one: a third of
// what a short command would take. Handlers that are registered later, such as MPI's, still run.
void skip_static_destructors() {
#if !BRIGADE_SANITIZED  // whose reports are made by such a handler
  ::on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        ::_exit(status);
      },
      nullptr);
#endif
}

}  // namespace

Command::Command(CLI::App& parent, const char* name, const char* description)
    : parser_(*parent.add_subcommand(name, description)) {}

}  // namespace brigade::command

int main(int argc, char** argv) {
  using namespace brigade::command;
  skip_static_destructors();
  return run_program([&] { return run_and_report(argc, argv); });
}
