#include "apps/brigade/config_file.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "apps/brigade/exit_code.h"
#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/file_system.h"

namespace brigade::command {
namespace {

constexpr std::string_view kFlag = "--config";
constexpr std::uint64_t kMostBytes = 1 << 20;

/// The value of the last `--config`.
std::optional<std::string> named_file(const std::vector<std::string>& arguments) {
  std::optional<std::string> file;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == kFlag && i + 1 < arguments.size()) file = arguments[i + 1];
    if (arguments[i].starts_with(base::str_cat(kFlag, "=")))
      file = arguments[i].substr(kFlag.size() + 1);
  }
  return file;
}

std::vector<std::string> flags_in(const std::string& path) {
  const auto refuse = [&](const auto&... why) {
    throw UsageError("the configuration ", base::quoted(path), " cannot be used: ", why...);
  };
  std::vector<std::string> flags;
  try {
    std::istringstream text(io::read_at_most(*io::posix_file_system(), path, kMostBytes));
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      if (!item.parents.empty())
        refuse("it has a section ", base::quoted(item.parents.front()),
               "; write `flag = value`, a line each");
      if (item.inputs.size() != 1 || item.inputs.front().empty())
        refuse(base::quoted(item.name), " must have one value");
      flags.push_back(base::str_cat("--", item.name, "=", item.inputs.front()));
    }
  } catch (const Error& error) {
    refuse(error.what());
  } catch (const CLI::Error& error) {
    refuse(error.what());
  }
  return flags;
}

}  // namespace

std::vector<std::string> with_config_file(std::vector<std::string> arguments) {
  const auto file = named_file(arguments);
  if (!file || arguments.empty()) return arguments;
  const std::vector<std::string> flags = flags_in(*file);
  arguments.insert(arguments.begin() + 1, flags.begin(), flags.end());  // after the command's name
  return arguments;
}

}  // namespace brigade::command
