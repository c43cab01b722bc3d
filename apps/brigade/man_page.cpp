#include "apps/brigade/man_page.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <vector>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

/// Text that roff shows as it is.
std::string escaped(std::string_view text) {
  std::string safe;
  bool begins_line = true;
  for (const char each : text) {
    if (begins_line && (each == '.' || each == '\'')) safe += "\\&";
    if (each == '\\') {
      safe += "\\e";
    } else if (each == '-') {
      safe += "\\-";
    } else {
      safe += each;
    }
    begins_line = each == '\n';
  }
  return safe;
}

std::string upper_case(std::string text) {
  for (char& each : text) each = static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
  return text;
}

std::string name_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : base::str_cat(name_of(*parent), "-", command.get_name());
}

/// "--resume auto|never|PATH".
std::string usage_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("\\fB\\-" + name + "\\fR");
  for (const std::string& name : option.get_lnames())
    names.push_back("\\fB\\-\\-" + escaped(name) + "\\fR");
  std::string text = option.nonpositional() ? base::join(names, ", ")
                                            : "\\fI" + escaped(option.get_name()) + "\\fR";
  if (!option.nonpositional() || option.get_items_expected_max() == 0) return text;
  const std::string& form = option.get_option_text();
  return base::str_cat(text, " \\fI", escaped(form.empty() ? option.get_type_name() : form),
                       "\\fR");
}

std::string options_of(const CLI::App& command) {
  std::string text;
  for (const std::string& group : command.get_groups()) {
    const auto options =
        command.get_options([&](const CLI::Option* each) { return each->get_group() == group; });
    if (options.empty() || group.empty()) continue;
    text += base::str_cat(".SH ", upper_case(escaped(group)), "\n");
    for (const CLI::Option* option : options) {
      const std::string& usual = option->get_default_str();
      text += base::str_cat(".TP\n", usage_of(*option), "\n", escaped(option->get_description()),
                            usual.empty() ? "" : base::str_cat(" (default: ", escaped(usual), ")"),
                            "\n");
    }
  }
  return text;
}

std::string commands_of(const CLI::App& command) {
  std::string text;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
    text += base::str_cat(".TP\n\\fB", escaped(each->get_name()), "\\fR\n",
                          escaped(each->get_description()), "\n");
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
failed
.TP
.B 2
wrong usage, configuration or input, found before any work
.TP
.B 75
SIGTERM: saved, restart me
.TP
.B 130
SIGINT: saved
)";

}  // namespace

std::string man_page(const CLI::App& command) {
  const std::string name = name_of(command);
  std::string spaced = name;
  for (char& each : spaced)
    if (each == '-') each = ' ';
  std::string positionals;
  for (const CLI::Option* each : command.get_options())
    if (!each->nonpositional()) positionals += base::str_cat(" \\fI", each->get_name(), "\\fR");
  const bool has_commands = !command.get_subcommands([](const CLI::App*) { return true; }).empty();
  std::string text = base::str_cat(
      ".TH ", upper_case(escaped(name)), " 1 \"\" \"brigade\" \"Brigade\"\n.SH NAME\n",
      escaped(name), " \\- ", escaped(command.get_description()), "\n.SH SYNOPSIS\n.B ",
      escaped(spaced), "\n", has_commands ? "\\fICOMMAND\\fR " : "", "[\\fIFLAG\\fR ...]",
      positionals, "\n", commands_of(command), options_of(command), kExitStatus);
  if (!command.get_footer().empty())
    text += base::str_cat(".SH EXAMPLES\n.nf\n", escaped(command.get_footer()), "\n.fi\n");
  return text;
}

}  // namespace brigade::command
