#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace brigade::command {

/// One subcommand. Its flags are added to the parser when it is made, and set when the parser runs.
class Command {
 public:
  Command(CLI::App& parent, const char* name, const char* description);
  virtual ~Command() = default;
  /// The parser of this subcommand.
  const CLI::App& parser() const { return parser_; }
  /// Does the work. Returns the exit code; throws UsageError for errors of the user, anything
  /// else for a failure.
  virtual int run() = 0;

 protected:
  CLI::App& parser_;
};

/// `brigade train`: trains a model and saves its weights.
std::unique_ptr<Command> make_train_command(CLI::App& parent);
/// `brigade sweep`: trains independent models with different flags, and compares them.
std::unique_ptr<Command> make_sweep_command(CLI::App& parent);
/// `brigade ps`: serves variables to the workers of a training, as a parameter server.
std::unique_ptr<Command> make_ps_command(CLI::App& parent);
/// `brigade evaluate`: evaluates saved weights on the test split.
std::unique_ptr<Command> make_evaluate_command(CLI::App& parent);
/// `brigade extract`: writes features, which a model with saved weights computes, to a file.
std::unique_ptr<Command> make_extract_command(CLI::App& parent);
/// `brigade inspect`: shows what a checkpoint holds, or how two differ.
std::unique_ptr<Command> make_inspect_command(CLI::App& parent);
/// `brigade report`: writes an HTML page about trainings.
std::unique_ptr<Command> make_report_command(CLI::App& parent);
/// `brigade top`: watches a running training in the terminal.
std::unique_ptr<Command> make_top_command(CLI::App& parent);
/// `brigade bench`: measures the speed of training steps on data in memory.
std::unique_ptr<Command> make_bench_command(CLI::App& parent);
/// `brigade data stats`: runs a training's input pipeline without the training, and shows what each
/// step of it does.
std::unique_ptr<Command> make_data_command(CLI::App& parent);
/// `brigade devices`: shows the devices of this machine.
std::unique_ptr<Command> make_devices_command(CLI::App& parent);
/// `brigade doctor`: says which cluster the environment describes, tries its addresses, and checks
/// the machine.
std::unique_ptr<Command> make_doctor_command(CLI::App& parent);
/// `brigade completion`: writes the completion of command lines for a shell.
std::unique_ptr<Command> make_completion_command(CLI::App& parent);
/// `brigade help`: writes the help of a command, or its manual page.
std::unique_ptr<Command> make_help_command(CLI::App& parent);

inline constexpr const char* kLaunchCommand = "launch";
inline constexpr const char* kLaunchDescription =
    "Start a program in several processes that train together";

inline constexpr const char* kNewCommand = "new";
inline constexpr const char* kNewDescription =
    "Make a project with a model, data and a loss of its own";
inline constexpr const char* kSetupCommand = "setup";
inline constexpr const char* kSetupDescription =
    "Download the libtorch that an installed Brigade needs";

/// These do `brigade launch`, `new` and `setup` with the arguments after the command's name. They
/// need no libtorch. Return the exit code; throw UsageError.
int run_launch(std::vector<std::string> arguments);
int run_new(std::vector<std::string> arguments);
int run_setup(std::vector<std::string> arguments);

/// Parses the arguments after the command's name for the three. Returns an exit code if the command
/// ends with that, having printed its help. Throws UsageError.
std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments);

}  // namespace brigade::command
