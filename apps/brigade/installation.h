#pragma once

#include <filesystem>

/// Where the parts of the command are. All are found from the running program, so an installation
/// can be moved. In a build folder both programs are in the same folder.
namespace brigade::command {

/// `brigade`, the program that users call: this one, or the one that this `brigade-core` belongs
/// to.
std::filesystem::path front_program();

/// `brigade-core`, which `brigade` runs for everything that needs libtorch.
std::filesystem::path core_program();

/// Whether the two are installed, and not in a build folder: there `brigade-core` has the path of
/// the libtorch that it was linked with.
bool is_installed();

/// The files of the project that `brigade new` makes.
std::filesystem::path new_project_files();

/// The script that downloads libtorch.
std::filesystem::path torch_installer();

}  // namespace brigade::command
