#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/installation.h"
#include "brigade/base/printable.h"

namespace brigade::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewExamples = R"(Examples:
  brigade new my_project
  cmake -S my_project -B my_project/build && cmake --build my_project/build
  my_project/build/my_project
      a project with a model, data and a loss of its own; it builds and trains as it is)";

/// In the files, the project's name.
constexpr std::string_view kPlaceholder = "@PROJECT@";

/// The name is that of a CMake target and of a program.
void check_name(const std::string& name) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kMore = "0123456789_-";
  const auto is_allowed = [&](char each) {
    return kLetters.find(each) != kLetters.npos || kMore.find(each) != kMore.npos;
  };
  if (!name.empty() && kLetters.find(name.front()) != kLetters.npos &&
      std::ranges::all_of(name, is_allowed) && name != "brigade" && name != "test") {
    return;
  }
  throw UsageError("a project cannot be called ", base::shortened(name),
                   "; use letters, digits, _ and -, beginning with a letter, and not "
                   "brigade or test");
}

void check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(folder, ignored))) return;
  if (fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored)) return;
  throw UsageError(folder.string(), " exists already; give another name");
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw UsageError("cannot read ", path.string());
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return;
  throw Error(ErrorCode::kUnavailable, "cannot write ", path.string());
}

std::string replaced(std::string text, std::string_view name) {
  for (auto at = text.find(kPlaceholder); at != text.npos; at = text.find(kPlaceholder, at)) {
    text.replace(at, kPlaceholder.size(), name);
  }
  return text;
}

void make_project(const fs::path& folder) {
  const fs::path files = new_project_files();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UsageError("cannot make ", folder.string(), ": ", error.message());
  }
  for (const auto& each : fs::directory_iterator(files, error)) {
    const std::string name = each.path().filename().string();
    write(folder / name, replaced(read(each.path()), folder.filename().string()));
  }
  if (error) {
    throw Error(ErrorCode::kNotFound, "The files of new projects, which belong in ", files.string(),
                ", cannot be read: ", error.message());
  }
}

}  // namespace

int run_new(std::vector<std::string> arguments) {
  CLI::App app(kNewDescription, "brigade new");
  std::string given;
  app.add_option("NAME", given, "The project's name, or its folder, whose last part is the name")
      ->required();
  app.footer(kNewExamples);
  if (const auto code = parse_arguments(app, std::move(arguments))) return *code;
  fs::path folder = fs::path(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // my_project/
  check_name(folder.filename().string());
  check_folder(folder);
  make_project(folder);
  const std::string path = folder.string();
  const std::string build = (folder / "build").string();
  std::cout << "Made " << path << ". Build and train it:\n  cmake -S " << path << " -B " << build
            << "\n  cmake --build " << build << "\n  "
            << (folder / "build" / folder.filename()).string() << "\n";
  return kDone;
}

}  // namespace brigade::command
