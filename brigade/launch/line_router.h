#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/handles.h"
#include "brigade/io/file_system.h"

namespace brigade::launch {

/// One of a process's two output streams.
enum class Stream { kOutput, kErrors };
inline constexpr Stream kStreams[] = {Stream::kOutput, Stream::kErrors};
/// Of an array with an element per stream.
constexpr std::size_t index_of(Stream stream) {
  return static_cast<std::size_t>(stream);
}

/// The prefix of each line that is passed on.
enum class LinePrefix { kRank, kNone };

struct OutputOptions {
  LinePrefix prefix = LinePrefix::kRank;
  /// The ranks whose lines are passed on; empty: all.
  std::vector<int> ranks = {};
  /// What stands for each rank's number, by rank: "worker:1". Empty: the numbers.
  std::vector<std::string> labels = {};
  /// Every rank's output is also written to `<directory>/rank_<r>.out` and `.err`, with labels to
  /// `worker_1.out`; empty: no files.
  io::Path directory = {};
  /// The number of last lines of each rank that are kept for failure reports.
  std::size_t kept_lines = 20;
};

/// Receives the lines that are shown.
class LineSink {
 public:
  virtual ~LineSink() = default;
  /// Takes whole lines. Must not block.
  virtual void write(Stream stream, std::string_view lines) = 0;
  /// Whether callers that can wait should write later.
  virtual bool is_busy() const = 0;
};

/// An output file that could not be written completely.
struct LostOutput {
  std::string file;
  std::string reason;  ///< the first
  std::int64_t bytes = 0;
};

/// Collects the output of processes and passes it on line by line, prefixed with the rank: "[1]
/// step 10". Lines of different ranks never mix, and the order within each stream of a rank is
/// kept. A carriage return also ends a line, so progress bars come out as lines.
///
/// A file that cannot be written completely is logged, and the job continues.
///
/// Thread-safety: one thread.
class LineRouter {
 public:
  /// The sink must outlive it. Throws kInvalidArgument if the folder cannot be created; the first
  /// `write` of a rank throws it if its files cannot be created.
  LineRouter(OutputOptions options, LineSink& sink);

  /// Whether callers that can wait should write later.
  bool is_busy() const { return sink_.is_busy(); }
  void write(int rank, Stream stream, std::string_view piece);
  /// Flushes the rest of the rank's last line: it writes no more.
  void end(int rank);

  /// The rank's last lines of both streams, oldest first.
  std::vector<std::string> last_lines(int rank) const;

  /// The incomplete files, in the order in which that was noticed.
  const std::vector<LostOutput>& lost() const { return lost_; }

 private:
  struct OpenLine {
    std::string text;           // without its end
    bool after_return = false;  // the line before ended with \r, so a \n now belongs to it
  };
  struct File {
    std::string name;
    base::FileDescriptor descriptor;
  };
  struct OfRank {
    OpenLine open[2];  // by stream
    std::deque<std::string> last;
    File files[2];
  };
  OfRank& of(int rank);
  std::string label(int rank) const;
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
