#pragma once

namespace CLI {
class App;
}

namespace brigade::command {

/// One subcommand. Its flags are added to the parser when it is made, and set when the parser runs.
class Command {
 public:
  virtual ~Command() = default;
  /// The parser of this subcommand.
  virtual const CLI::App& parser() const = 0;
  /// Does the work. Returns the exit code; throws UsageError for errors of the user, anything
  /// else for a failure.
  virtual int run() = 0;
};

}  // namespace brigade::command
