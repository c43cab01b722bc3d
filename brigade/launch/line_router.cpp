#include "brigade/launch/line_router.h"

#include <algorithm>
#include <filesystem>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

// A program that never ends a line must not fill the memory.
constexpr std::size_t kLongestLine = 64 * 1024;

std::size_t index_of(Stream stream) {
  return stream == Stream::kOutput ? 0 : 1;
}

}  // namespace

LineRouter::LineRouter(OutputOptions options, std::ostream& output, std::ostream& errors)
    : options_(std::move(options)), output_(output), errors_(errors) {
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  check_argument(!error, base::str_cat("The folder for output, ", options_.directory.string(),
                                       ", cannot be made: ", error.message()));
}

LineRouter::OfRank& LineRouter::of(int rank) {
  const auto [place, is_new] = ranks_.try_emplace(rank);
  if (!is_new || options_.directory.empty()) return place->second;
  const auto open = [&](const char* end) {
    const io::Path path = options_.directory / base::str_cat("rank_", rank, end);
    auto file = std::make_unique<std::ofstream>(path, std::ios::app);
    check_argument(file->is_open(),
                   base::str_cat("The file for output, ", path.string(), ", cannot be written."));
    return file;
  };
  place->second.files[0] = open(".out");
  place->second.files[1] = open(".err");
  return place->second;
}

void LineRouter::write(int rank, Stream stream, std::string_view piece) {
  OfRank& own = of(rank);
  if (auto& file = own.files[index_of(stream)])
    file->write(piece.data(), static_cast<std::streamsize>(piece.size())).flush();
  OpenLine& line = own.open[index_of(stream)];
  std::string shown;
  for (const char c : piece) {
    const bool is_second_of_pair = c == '\n' && line.after_return;
    line.after_return = c == '\r';
    if (is_second_of_pair) continue;
    // What rewrites a line may begin with a return; empty lines are written with a newline.
    const bool is_end = c == '\n' || (c == '\r' && !line.text.empty());
    if (c != '\n' && c != '\r') line.text.push_back(c);
    if (is_end || line.text.size() >= kLongestLine) shown += take(rank, own, line);
  }
  show(stream, shown);
}

void LineRouter::end(int rank) {
  OfRank& own = of(rank);
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    OpenLine& line = own.open[index_of(stream)];
    if (!line.text.empty()) show(stream, take(rank, own, line));
    line = {};
  }
}

std::string LineRouter::take(int rank, OfRank& own, OpenLine& line) {
  own.last.push_back(std::move(line.text));
  line.text.clear();
  std::string shown;
  if (is_shown(rank)) {
    if (options_.prefix == LinePrefix::kRank) shown = base::str_cat("[", rank, "] ");
    shown += own.last.back() + '\n';
  }
  if (own.last.size() > options_.kept_lines) own.last.pop_front();
  return shown;
}

void LineRouter::show(Stream stream, const std::string& lines) {
  // In one piece: others may write to the same terminal or file.
  if (!lines.empty()) (stream == Stream::kOutput ? output_ : errors_) << lines << std::flush;
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
