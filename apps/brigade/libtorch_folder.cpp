#include "apps/brigade/libtorch_folder.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <vector>

#include "apps/brigade/exit_code.h"
#include "brigade/base/environment.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForAllUsers = "/opt/brigade";
constexpr const char* kInFolder = "site/torch";

std::string variable(const char* name) {
  return base::environment(name).value_or("");
}

std::optional<fs::path> user_folder() {
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) {
    return fs::path(data) / "brigade";
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    return fs::path(home) / ".local/share/brigade";
  }
  return std::nullopt;
}

/// "2.11" of "2.11.0".
std::string series_of(const std::string& version) {
  return version.substr(0, version.rfind('.'));
}

/// The series that the headers in a folder of libtorch state; nothing if there is no libtorch.
std::optional<std::string> series_in(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "lib/libtorch_cpu.so", ignored)) return std::nullopt;
  std::ifstream header(folder / "include/torch/headeronly/version.h");
  std::string major, minor;
  for (std::string define, name, value; header >> define;) {
    if (define != "#define" || !(header >> name >> value)) continue;
    if (name == "TORCH_VERSION_MAJOR") major = value;
    if (name == "TORCH_VERSION_MINOR") minor = value;
  }
  if (major.empty() || minor.empty()) return "of an unknown version";
  return base::str_cat(major, ".", minor);
}

/// The folders of the package torch in a virtual environment: one for each version of Python there.
std::vector<fs::path> in_virtual_environment() {
  std::vector<fs::path> folders;
  const std::string environment = variable("VIRTUAL_ENV");
  std::error_code ignored;
  if (environment.empty()) return folders;
  for (const auto& each : fs::directory_iterator(fs::path(environment) / "lib", ignored)) {
    if (each.path().filename().string().starts_with("python3")) {
      folders.push_back(each.path() / "site-packages/torch");
    }
  }
  return folders;
}

std::vector<fs::path> candidates() {
  if (const std::string chosen = variable("BRIGADE_TORCH_DIR"); !chosen.empty()) return {chosen};
  std::vector<fs::path> folders = in_virtual_environment();
  if (const auto user = user_folder()) folders.push_back(*user / kInFolder);
  folders.push_back(fs::path(kForAllUsers) / kInFolder);
  return folders;
}

}  // namespace

fs::path setup_folder() {
  if (::geteuid() == 0) return kForAllUsers;
  if (const auto user = user_folder()) return *user;
  throw UsageError("HOME is not set, so there is no folder for libtorch; give one with --dir");
}

fs::path find_libtorch() {
  std::string others;
  for (const fs::path& folder : candidates()) {
    const auto series = series_in(folder);
    if (!series) continue;
    if (*series == series_of(BRIGADE_TORCH_VERSION)) return folder;
    others += base::str_cat("; ", folder.string(), " is libtorch ", *series);
  }
  throw UsageError(
      "no libtorch ", series_of(BRIGADE_TORCH_VERSION), " was found", others,
      ". Download it by `brigade setup`, or set BRIGADE_TORCH_DIR to its folder with include/ and "
      "lib/");
}

}  // namespace brigade::command
