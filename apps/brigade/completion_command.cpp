#include <CLI/CLI.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/completion.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/report.h"

namespace brigade::command {
namespace {

constexpr const char* kCompletionExamples = R"(Examples:
  source <(brigade completion bash)
      in this shell; to have it in every one:
  brigade completion bash > ~/.local/share/bash-completion/completions/brigade
  brigade completion zsh > ~/.zfunc/_brigade
      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc
  brigade completion fish > ~/.config/fish/completions/brigade.fish)";

class CompletionCommand final : public Command {
 public:
  explicit CompletionCommand(CLI::App& parent)
      : Command(parent, "completion", "Write the completion of command lines for a shell") {
    parser_.add_option("SHELL", shell_, "bash, zsh, or fish")->required();
    parser_.footer(kCompletionExamples);
  }

  int run() override {
    check_choice("shell", shell_, {"bash", "zsh", "fish"});
    const CLI::App& app = *parser_.get_parent();
    print_text(shell_ == "bash"  ? bash_completion(app)
               : shell_ == "zsh" ? zsh_completion(app)
                                 : fish_completion(app));
    return kDone;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command(CLI::App& parent) {
  return std::make_unique<CompletionCommand>(parent);
}

}  // namespace brigade::command
