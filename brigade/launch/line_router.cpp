#include "brigade/launch/line_router.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

// Bounds the memory for a program that never ends a line.
constexpr std::size_t kLongestLine = 64 * 1024;

}  // namespace

LineRouter::LineRouter(OutputOptions options, LineSink& sink)
    : options_(std::move(options)), sink_(sink) {
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  check_argument(!error, "The folder for output, ", options_.directory.string(),
                 ", cannot be made: ", error.message());
}

std::string LineRouter::label(int rank) const {
  if (options_.labels.empty()) return std::to_string(rank);
  return options_.labels.at(static_cast<std::size_t>(rank));
}

LineRouter::OfRank& LineRouter::of(int rank) {
  const auto [entry, is_new] = ranks_.try_emplace(rank);
  if (!is_new || options_.directory.empty()) return entry->second;
  std::string stem = base::str_cat(options_.labels.empty() ? "rank_" : "", label(rank));
  std::ranges::replace(stem, ':', '_');
  const auto open = [&](const char* end) {
    const std::string name = (options_.directory / (stem + end)).string();
    // O_NONBLOCK: the path may be a named pipe.
    base::FileDescriptor file(
        ::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
    check_argument(file.is_open(), "The file for output, ", name,
                   ", cannot be written: ", std::strerror(errno));
    return File{name, std::move(file)};
  };
  entry->second.files[0] = open(".out");
  entry->second.files[1] = open(".err");
  return entry->second;
}

void LineRouter::write(int rank, Stream stream, std::string_view piece) {
  OfRank& own = of(rank);
  store(own.files[index_of(stream)], piece);
  OpenLine& line = own.open[index_of(stream)];
  std::string shown;
  for (const char c : piece) {
    const bool is_second_of_pair = c == '\n' && line.after_return;
    line.after_return = c == '\r';
    if (is_second_of_pair) continue;
    // Progress bars may begin with \r, so an empty line ends only with \n.
    const bool is_end = c == '\n' || (c == '\r' && !line.text.empty());
    if (c != '\n' && c != '\r') line.text.push_back(c);
    if (is_end || line.text.size() >= kLongestLine) shown += take(rank, own, line);
  }
  // In one call: other programs may write to the same terminal or file.
  if (!shown.empty()) sink_.write(stream, shown);
}

void LineRouter::store(const File& file, std::string_view piece) {
  if (!file.descriptor.is_open()) return;
  while (!piece.empty()) {
    const ssize_t count = ::write(file.descriptor.number(), piece.data(), piece.size());
    if (count > 0) {
      piece.remove_prefix(static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return record_lost(file, count == 0 ? EIO : errno, piece.size());
    }
  }
}

void LineRouter::record_lost(const File& file, int error, std::size_t bytes) {
  auto found = std::ranges::find(lost_, file.name, &LostOutput::file);
  if (found == lost_.end()) {
    found = lost_.insert(lost_.end(), {.file = file.name, .reason = std::strerror(error)});
    base::log_error("Output is lost: ", file.name, " cannot be written (", found->reason,
                    "). The job continues; its exit code will not be 0.");
  }
  found->bytes += static_cast<std::int64_t>(bytes);
}

void LineRouter::end(int rank) {
  OfRank& own = of(rank);
  for (const Stream stream : kStreams) {
    OpenLine& line = own.open[index_of(stream)];
    if (!line.text.empty()) {
      if (const std::string shown = take(rank, own, line); !shown.empty())
        sink_.write(stream, shown);
    }
    line = {};
  }
}

std::string LineRouter::take(int rank, OfRank& own, OpenLine& line) {
  own.last.push_back(std::move(line.text));
  line.text.clear();
  std::string shown;
  if (is_shown(rank)) {
    if (options_.prefix == LinePrefix::kRank) shown = base::str_cat("[", label(rank), "] ");
    shown += own.last.back() + '\n';
  }
  if (own.last.size() > options_.kept_lines) own.last.pop_front();
  return shown;
}

bool LineRouter::is_shown(int rank) const {
  return options_.ranks.empty() || std::ranges::count(options_.ranks, rank) > 0;
}

std::vector<std::string> LineRouter::last_lines(int rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return {};
  return {found->second.last.begin(), found->second.last.end()};
}

}  // namespace brigade::launch
