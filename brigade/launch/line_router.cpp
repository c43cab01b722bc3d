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
    return std::make_unique<std::ofstream>(options_.directory / base::str_cat("rank_", rank, end),
                                           std::ios::app);
  };
  place->second.files[0] = open(".out");
  place->second.files[1] = open(".err");
  return place->second;
}

void LineRouter::write(int rank, Stream stream, std::string_view piece) {
  OfRank& own = of(rank);
  if (auto& file = own.files[index_of(stream)]) file->write(piece.data(), piece.size()).flush();
  std::string& open = own.open[index_of(stream)];
  for (const char c : piece) {
    const bool is_end = c == '\n' || c == '\r';
    if (!is_end) open.push_back(c);
    if ((is_end && !open.empty()) || open.size() >= kLongestLine || c == '\n') {
      put(rank, stream, open);
      open.clear();
    }
  }
}

void LineRouter::end(int rank) {
  OfRank& own = of(rank);
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    std::string& open = own.open[index_of(stream)];
    if (!open.empty()) put(rank, stream, open);
    open.clear();
  }
}

void LineRouter::put(int rank, Stream stream, const std::string& line) {
  OfRank& own = of(rank);
  own.last.push_back(line);
  if (own.last.size() > options_.kept_lines) own.last.pop_front();
  if (!is_shown(rank)) return;
  std::ostream& to = stream == Stream::kOutput ? output_ : errors_;
  if (options_.prefix == LinePrefix::kRank) to << '[' << rank << "] ";
  to << line << '\n' << std::flush;
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
