#include <CLI/CLI.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/man_page.h"
#include "apps/brigade/report.h"

namespace brigade::command {
namespace {

constexpr const char* kHelpExamples = R"(Examples:
  brigade help train
      the flags of a command
  brigade help train --man | man -l -
      the same as a manual page
  brigade help --man > brigade.1
      the manual page of the program, to install in share/man/man1)";

class HelpCommand final : public Command {
 public:
  explicit HelpCommand(CLI::App& parent)
      : Command(parent, "help", "Show the help of a command, or its manual page") {
    parser_.add_option("COMMAND", words_, "A command, such as train or data stats");
    FlagGroup(parser_).add_switch("--man", man_, "Write it as a manual page, for man");
    parser_.footer(kHelpExamples);
  }

  int run() override {
    const CLI::App* command = parser_.get_parent();
    std::string name = command->get_name();
    for (const std::string& word : words_) {
      command = child(*command, word);
      name += " " + command->get_name();
    }
    print_text(man_ ? man_page(*command) : help_of(*command, name));
    return kDone;
  }

 private:
  // Not App::help, which passes on to the command that was parsed: this one.
  static std::string help_of(const CLI::App& command, const std::string& name) {
    return command.get_formatter()->make_help(&command, name, CLI::AppFormatMode::Normal);
  }

  static const CLI::App* child(const CLI::App& parent, const std::string& name) {
    std::vector<std::string> names;
    for (const CLI::App* each : parent.get_subcommands([](const CLI::App*) { return true; })) {
      if (each->get_name() == name) return each;
      names.push_back(each->get_name());
    }
    if (names.empty()) throw UsageError(parent.get_name() + " has no commands of its own");
    check_choice("command", name, names);
    return nullptr;  // not reached
  }

  std::vector<std::string> words_;
  bool man_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help_command(CLI::App& parent) {
  return std::make_unique<HelpCommand>(parent);
}

}  // namespace brigade::command
