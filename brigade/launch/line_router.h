#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/launch/file_descriptor.h"

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

/// Where lines go that are shown.
class LineSink {
 public:
  virtual ~LineSink() = default;
  /// Takes whole lines. Must not block.
  virtual void write(Stream stream, std::string_view lines) = 0;
  /// Whether more should be brought later, by a caller that can wait.
  virtual bool is_busy() const = 0;
};

/// A file of a rank's output that could not be written in full.
struct LostOutput {
  std::string file;
  std::string reason;  ///< the first
  std::int64_t bytes = 0;
};

/// Takes what processes write, piece by piece, and gives it out line by line with the rank before
/// each: "[1] step 10". Lines of several ranks never mix; a rank's own order is kept within each of
/// its two streams. A carriage return ends a line as well, so progress that is rewritten comes out
/// as lines.
///
/// A file that cannot be written in full is logged when that is found, and the job goes on.
///
/// Thread-safety: one thread.
class LineRouter {
 public:
  /// The sink must outlive it. Throws kInvalidArgument where the folder cannot be made; so does
  /// the first `write` of a rank whose files cannot.
  LineRouter(OutputOptions options, LineSink& sink);

  /// Whether more should be written later, by a caller that can wait.
  bool is_busy() const { return sink_.is_busy(); }
  void write(int rank, Stream stream, std::string_view piece);
  /// The rank writes no more: what is left of its last line comes out.
  void end(int rank);

  /// The last lines of either stream, oldest first.
  std::vector<std::string> last_lines(int rank) const;

  /// The files that lack something, in the order in which that was found.
  const std::vector<LostOutput>& lost() const { return lost_; }

 private:
  struct OpenLine {
    std::string text;           // has no end yet
    bool after_return = false;  // a newline now belongs to the line that a return has ended
  };
  struct File {
    std::string name;
    FileDescriptor descriptor;
  };
  struct OfRank {
    OpenLine open[2];  // by stream
    std::deque<std::string> last;
    File files[2];
  };
  OfRank& of(int rank);
  void store(const File& file, std::string_view piece);
  void record_lost(const File& file, int error, std::size_t bytes);
  std::string take(int rank, OfRank& own, OpenLine& line);
  bool is_shown(int rank) const;

  const OutputOptions options_;
  LineSink& sink_;
  std::map<int, OfRank> ranks_;
  std::vector<LostOutput> lost_;
};

}  // namespace brigade::launch
