#include "apps/brigade/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

struct Flag {
  std::vector<std::string> names;  // with their dashes
  bool takes_value = false;
  std::vector<std::string> values;  // that its help lists
  std::string text;                 // the first sentence of its help
};

struct Words {
  std::string name;  // "data stats"; empty: the program itself
  std::string text;
  std::vector<std::string> commands;
  std::vector<Flag> flags;
};

std::string first_sentence(const std::string& text) {
  const std::size_t end = std::min(text.find_first_of(":;(."), text.find('\n'));
  return std::string(base::trim(text.substr(0, end)));
}

bool is_value(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_' ||
           each == '-';
  });
}

/// The words of "auto|never|PATH" that are values, or of a text that ends with "...: end, none".
std::vector<std::string> values_of(const CLI::Option& option) {
  std::vector<std::string> values;
  const std::string& form = option.get_option_text();
  if (form.find('|') != std::string::npos) {
    for (const std::string& word : base::split(form, '|'))
      if (is_value(word)) values.push_back(word);
    return values;
  }
  const std::string& text = option.get_description();
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) return values;
  for (const std::string& part : base::split(text.substr(colon + 2), ',')) {
    const std::string word(base::trim(part));
    if (!is_value(word)) return {};
    values.push_back(word);
  }
  return values.size() > 1 ? values : std::vector<std::string>{};
}

Flag flag_of(const CLI::Option& option) {
  Flag flag{.takes_value = option.get_items_expected_max() > 0,
            .values = values_of(option),
            .text = first_sentence(option.get_description())};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  return flag;
}

/// The parser's own words and those of its commands, in this order.
void collect(const CLI::App& app, const std::string& name, std::vector<Words>& all) {
  const std::size_t own = all.size();
  all.push_back({.name = name, .text = first_sentence(app.get_description())});
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) all[own].flags.push_back(flag_of(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    all[own].commands.push_back(command->get_name());
    collect(*command, name.empty() ? command->get_name() : name + " " + command->get_name(), all);
  }
}

std::vector<Words> words_of(const CLI::App& app) {
  std::vector<Words> all;
  collect(app, "", all);
  return all;
}

std::vector<std::string> flag_names(const std::vector<Flag>& flags) {
  std::vector<std::string> names;
  for (const Flag& each : flags) names.insert(names.end(), each.names.begin(), each.names.end());
  return names;
}

/// Fit for single quotes of any shell.
std::string quotable(std::string text) {
  std::erase_if(text, [](char each) {
    return each == '\'' || each == '\\' || each == '[' || each == ']' || each == '`';
  });
  return text;
}

/// A case for each flag with values: `command,--flag) values="..."`.
std::string value_cases(const std::vector<Words>& all) {
  std::string cases;
  for (const Words& words : all) {
    for (const Flag& flag : words.flags) {
      if (!flag.takes_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names)
        patterns.push_back(base::str_cat("'", words.name, ",", name, "'"));
      cases += base::str_cat("    ", base::join(patterns, "|"), ") values='",
                             base::join(flag.values, " "), "'; takes_value=1 ;;\n");
    }
  }
  return cases;
}

std::string word_cases(const std::vector<Words>& all) {
  std::string cases;
  for (const Words& words : all) {
    cases += base::str_cat("    '", words.name, "') commands='", base::join(words.commands, " "),
                           "'; flags='", base::join(flag_names(words.flags), " "), "' ;;\n");
  }
  return cases;
}

/// Finds the command in `words` before the word `current`, counted from 0: the shells' common part.
std::string command_search(const std::vector<Words>& all, const std::string& first) {
  std::string names;
  for (const Words& each : all)
    if (!each.name.empty()) names += base::str_cat(names.empty() ? "'" : "|'", each.name, "'");
  return base::str_cat("  for ((i = ", first, "; i < current; ++i)); do\n",
                       "    word=${words[i]}\n",
                       "    if [[ $word == -- ]]; then after_dashes=1; break; fi\n",
                       "    case \"${command:+$command }$word\" in\n      ", names,
                       ") command=\"${command:+$command }$word\" ;;\n    esac\n  done\n");
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  const std::vector<Words> all = words_of(app);
  return base::str_cat(
      R"(# Completion of brigade for bash. `brigade completion bash` has written it.
_brigade() {
  local words=("${COMP_WORDS[@]}") current=$COMP_CWORD
  local command= commands= flags= values= takes_value= after_dashes= word i
)",
      command_search(all, "1"), R"(  word=${words[current]}
  local before=${words[current-1]}
  COMPREPLY=()
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${words[current-2]}; fi
  case "$command,$before" in
)",
      value_cases(all), R"(  esac
  case "$command" in
)",
      word_cases(all), R"(  esac
  if [[ $after_dashes ]]; then
    COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word"))
  elif [[ $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ ! $takes_value && $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [[ ! $takes_value && $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  fi
}
complete -o default -F _brigade brigade
)");
}

std::string zsh_completion(const CLI::App& app) {
  const std::vector<Words> all = words_of(app);
  return base::str_cat(R"(#compdef brigade
# Completion of brigade for zsh. `brigade completion zsh` has written it.
_brigade() {
  local current=$CURRENT command= commands= flags= values= takes_value= after_dashes= word i
)",
                       command_search(all, "2"), R"(  word=${words[current]}
  case "$command,${words[current-1]}" in
)",
                       value_cases(all), R"(  esac
  case "$command" in
)",
                       word_cases(all), R"(  esac
  if [[ -n $after_dashes ]]; then
    _files; _command_names -e
  elif [[ -n $values ]]; then
    compadd -- ${=values}; _files
  elif [[ -z $takes_value && $word == -* ]]; then
    compadd -- ${=flags}
  elif [[ -z $takes_value && -n $commands ]]; then
    compadd -- ${=commands}
  else
    _files
  fi
}
if [[ $funcstack[1] == _brigade ]]; then _brigade "$@"; else compdef _brigade brigade; fi
)");
}

std::string fish_completion(const CLI::App& app) {
  std::string text =
      "# Completion of brigade for fish. `brigade completion fish` has written it.\n";
  for (const Words& words : words_of(app)) {
    std::vector<std::string> conditions;
    for (const std::string& part : base::split(words.name, ' '))
      if (!part.empty()) conditions.push_back("__fish_seen_subcommand_from " + part);
    if (!words.commands.empty())  // none of them is there yet
      conditions.push_back("not __fish_seen_subcommand_from " + base::join(words.commands, " "));
    const std::string begin =
        base::str_cat("complete -c brigade -n '", base::join(conditions, "; and "), "' ");
    for (const std::string& command : words.commands)
      text += base::str_cat(begin, "-f -a ", command, "\n");
    for (const Flag& flag : words.flags) {
      text += begin;
      for (const std::string& name : flag.names)
        text += name.starts_with("--") ? base::str_cat("-l ", name.substr(2), " ")
                                       : base::str_cat("-s ", name.substr(1), " ");
      if (flag.takes_value)
        text += flag.values.empty() ? std::string("-r ")
                                    : base::str_cat("-x -a '", base::join(flag.values, " "), "' ");
      text += base::str_cat("-d '", quotable(flag.text), "'\n");
    }
  }
  return text;
}

}  // namespace brigade::command
