#include "apps/brigade/empty_values.h"

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument.front() == '-';
}

[[noreturn]] void refuse(const std::string& flag) {
  throw UsageError(base::str_cat(flag,
                                 " is given an empty value; give one, or leave the flag out "
                                 "(is a shell variable not set?)"));
}

}  // namespace

void check_no_empty_values(const std::vector<std::string>& arguments) {
  const std::string* before = nullptr;
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    // Only the first '=' ends a flag's name.
    if (is_flag(argument) && argument.find('=') == argument.size() - 1)
      refuse(argument.substr(0, argument.size() - 1));
    if (argument.empty()) {
      if (before != nullptr && is_flag(*before) && before->find('=') == std::string::npos)
        refuse(*before);
      throw UsageError("an empty argument is given (is a shell variable not set?)");
    }
    before = &argument;
  }
}

}  // namespace brigade::command
