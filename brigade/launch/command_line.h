#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::launch {

/// Replaces every {rank} and {world_size} in `words` by the numbers.
std::vector<std::string> expand_placeholders(const std::vector<std::string>& words, int rank,
                                             int world_size);

/// Splits a line at blanks as a shell does. '...', "..." and \ quote characters; no other character
/// is special. Throws kInvalidArgument for an unterminated quote.
std::vector<std::string> split_words(std::string_view line);

/// Reads a file that holds the additional arguments of one process on each line. Empty lines and
/// lines that begin with # are skipped. Throws kNotFound if the file cannot be read, and
/// kInvalidArgument, naming the line, for an unterminated quote.
std::vector<std::vector<std::string>> read_argument_lines(const io::Path& path);

}  // namespace brigade::launch
