#include "apps/brigade/empty_values.h"

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

bool is_flag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

[[noreturn]] void refuse(const std::string& flag) {
  throw UsageError(base::str_cat(flag,
                                 " is given an empty value; give one, or leave the flag out "
                                 "(is a shell variable not set?)"));
}

}  // namespace

void check_no_empty_values(const std::vector<std::string>& arguments) {
  const std::string* before = nullptr;
  for (const std::string& word : arguments) {
    if (word == "--") return;
    // Only the first '=' ends a flag's name.
    if (is_flag(word) && word.find('=') == word.size() - 1) refuse(word.substr(0, word.size() - 1));
    if (word.empty()) {
      if (before != nullptr && is_flag(*before) && before->find('=') == std::string::npos)
        refuse(*before);
      throw UsageError("an empty word is given (is a shell variable not set?)");
    }
    before = &word;
  }
}

}  // namespace brigade::command
