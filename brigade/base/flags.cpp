#include "brigade/base/flags.h"

#include "brigade/base/error.h"

namespace brigade::base {

namespace {

std::string usage_of(const Flags& flags) {
  std::string names;
  for (const auto& [name, value] : flags)
    names += (names.empty() ? "--" : ", --") + name + "=" + value;
  return "These are, with their defaults: " + names + ".";
}

}  // namespace

Flags parse_flags(int argc, const char* const* argv, const Flags& defaults) {
  Flags flags = defaults;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    const bool has_form = text.starts_with("--") && equals != std::string::npos;
    const auto flag = flags.find(has_form ? text.substr(2, equals - 2) : "");
    if (flag == flags.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "\"" + text +
                      "\" is none of this program's flags, each with its value after \"=\". " +
                      usage_of(defaults));
    }
    flag->second = text.substr(equals + 1);
  }
  return flags;
}

}  // namespace brigade::base
