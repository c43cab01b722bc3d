#pragma once

#include <filesystem>

namespace brigade::command {

/// Where `brigade setup` puts libtorch for this user: /opt/brigade for root, else
/// $XDG_DATA_HOME/brigade or ~/.local/share/brigade. The libtorch is in site/torch of it.
std::filesystem::path setup_folder();

/// The folder, with include/ and lib/, of the libtorch that the installed command loads. It is of
/// the series that Brigade was built with. Searched in this order: BRIGADE_TORCH_DIR, which must
/// fit; the package torch of an active virtual environment; where `brigade setup` puts it. (The
/// CMake package searches CMAKE_PREFIX_PATH and other environments of Python, too.) Throws
/// UsageError, saying what was found, if there is none.
std::filesystem::path find_libtorch();

}  // namespace brigade::command
