#pragma once

#include <string_view>

namespace brigade::runs {

/// The files of page/, which CMake compiles in.
std::string_view page_html();
std::string_view page_style();
std::string_view page_script();

}  // namespace brigade::runs
