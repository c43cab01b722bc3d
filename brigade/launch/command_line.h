#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::launch {

/// `words` with {rank} and {world_size} replaced by the numbers, wherever they stand.
std::vector<std::string> expand_placeholders(const std::vector<std::string>& words, int rank,
                                     int world_size);

/// Splits a line as a shell would: at blanks, with '...', "..." and \ keeping characters together.
/// Nothing else has a meaning. Throws kInvalidArgument for a quote that does not end.
std::vector<std::string> split_words(std::string_view line);

/// A file with one process's additional arguments on each line. Empty lines and lines that begin
/// with # are no process. Throws kNotFound for a file that cannot be read; kInvalidArgument, naming
/// the line, for a quote that does not end.
std::vector<std::vector<std::string>> read_argument_lines(const io::Path& path);

}  // namespace brigade::launch
