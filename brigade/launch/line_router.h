#pragma once

#include <cstddef>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::launch {

/// Which of a process's two outputs.
enum class Stream { kOutput, kErrors };

/// What stands before each line that is passed on.
enum class LinePrefix { kRank, kNone };

struct OutputOptions {
  LinePrefix prefix = LinePrefix::kRank;
  /// The ranks whose lines are passed on; empty: all.
  std::vector<int> ranks = {};
  /// Every rank's lines also go to `<directory>/rank_<r>.out` and `.err`; empty: to no file.
  io::Path directory = {};
  /// How many of a rank's last lines are kept for the report of a failure.
  std::size_t kept_lines = 20;
};

/// Takes what processes write, piece by piece, and gives it out line by line with the rank before
/// each: "[1] step 10". Lines of several ranks never mix; a rank's own order is kept within each of
/// its two streams. A carriage return ends a line as well, so progress that is rewritten comes out
/// as lines.
///
/// Thread-safety: one thread.
class LineRouter {
 public:
  /// Both streams must outlive it. Throws kInvalidArgument where the folder cannot be made; so does
  /// the first `write` of a rank whose files cannot.
  LineRouter(OutputOptions options, std::ostream& output, std::ostream& errors);

  void write(int rank, Stream stream, std::string_view piece);
  /// The rank writes no more: what is left of its last line comes out.
  void end(int rank);

  /// The last lines of either stream, oldest first.
  std::vector<std::string> last_lines(int rank) const;

 private:
  struct OpenLine {
    std::string text;           // has no end yet
    bool after_return = false;  // a newline now belongs to the line that a return has ended
  };
  struct OfRank {
    OpenLine open[2];  // by stream
    std::deque<std::string> last;
    std::unique_ptr<std::ofstream> files[2];
  };
  OfRank& of(int rank);
  std::string take(int rank, OfRank& own, OpenLine& line);
  void show(Stream stream, const std::string& lines);
  bool is_shown(int rank) const;

  const OutputOptions options_;
  std::ostream& output_;
  std::ostream& errors_;
  std::map<int, OfRank> ranks_;
};

}  // namespace brigade::launch
