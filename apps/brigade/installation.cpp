#include "apps/brigade/installation.h"

namespace brigade::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFront = "brigade";
constexpr const char* kCore = "brigade-core";

fs::path program_directory() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

/// `name` in this program's folder if it is there, else in the one that `relative` leads to.
fs::path beside_or(const char* name, const char* relative) {
  const fs::path beside = program_directory() / name;
  if (fs::exists(beside)) return beside;
  return (program_directory() / relative / name).lexically_normal();
}

}  // namespace

fs::path front_program() {
  return beside_or(kFront, BRIGADE_BIN_FROM_LIBEXEC);
}

fs::path core_program() {
  return beside_or(kCore, BRIGADE_LIBEXEC_FROM_BIN);
}

bool is_installed() {
  return front_program().parent_path() != core_program().parent_path();
}

fs::path new_project_files() {
  return (front_program().parent_path() / BRIGADE_DATA_FROM_BIN / "new_project").lexically_normal();
}

fs::path torch_installer() {
  return core_program().parent_path() / "install_torch.py";
}

}  // namespace brigade::command
