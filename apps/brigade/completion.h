#pragma once

#include <string>

namespace CLI {
class App;
}

namespace brigade::command {

/// The completion of `app`'s command lines for a shell, made of its parser: commands, flags, the
/// values that a flag's help lists (`auto|never|PATH`), and files for everything else. After `--`
/// the words are another program's.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

}  // namespace brigade::command
