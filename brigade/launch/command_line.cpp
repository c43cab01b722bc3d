#include "brigade/launch/command_line.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

}  // namespace

std::vector<std::string> expand_placeholders(const std::vector<std::string>& words, int rank,
                                             int world_size) {
  std::vector<std::string> replaced = words;
  for (std::string& word : replaced) {
    replace_all(word, "{rank}", std::to_string(rank));
    replace_all(word, "{world_size}", std::to_string(world_size));
  }
  return replaced;
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && is_blank(c)) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    if (!word) word.emplace();
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word->push_back(line[++i]);
    } else {
      word->push_back(c);
    }
  }
  check_argument(quote == 0, "A quote (", quote, ") has no end in: ", base::shortened(line));
  if (word) words.push_back(*word);
  return words;
}

std::vector<std::vector<std::string>> read_argument_lines(const io::Path& path) {
  check_argument(!std::filesystem::is_directory(path), path.string(),
                 " is a folder; give a file with a line of arguments for each process.");
  const std::string text = io::read_at_most(*io::posix_file_system(), path, io::kMostBytesOfText);
  std::vector<std::vector<std::string>> lines;
  int number = 0;
  for (const std::string& line : base::split(text, '\n')) {
    ++number;
    const std::string trimmed(base::trim(line));
    if (trimmed.empty() || trimmed.front() == '#') continue;
    try {
      lines.push_back(split_words(trimmed));
    } catch (const Error& error) {
      throw Error(error.code(), path.string(), ", line ", number, ": ", error.what());
    }
  }
  check_argument(!lines.empty(), path.string(),
                 " has no line of arguments; give one for each process.");
  return lines;
}

}  // namespace brigade::launch
