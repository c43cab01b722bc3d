#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/runs/curve.h"
#include "brigade/runs/event_history.h"

namespace brigade::runs {

/// The state of a run.
enum class RunState {
  kFinished,     ///< it has a result
  kInterrupted,  ///< a signal ended it, after its state was saved
  kRunning,      ///< a process holds its lock
  kBroken,       ///< it has begun, has no result, and no process holds its lock
  kUnknown       ///< it has no run.json: another program's, or it is lost
};
/// "finished", "interrupted", "running", "ended without a result" or "unknown".
std::string_view to_string(RunState state);

/// A name and its value, both printable (`base::printable`) and at most `kLongestFact` bytes long.
using RunFact = std::pair<std::string, std::string>;
inline constexpr std::size_t kLongestFact = 4'000;

/// A checkpoint in a model directory.
struct CheckpointRecord {
  std::string name;  ///< Printable.
  std::int64_t step = 0;
  double time = 0;  ///< In seconds since 1970.
  std::uint64_t bytes = 0;
  std::string problem;  ///< Why it is not complete; empty if it is. Printable.
};

/// The fractions of a step's time that one replica spent in each phase, as the run's result gives
/// them.
using PhaseFractions = std::vector<std::pair<std::string, double>>;

/// What a training has left in its model directory, for human readers. Texts are printable, tags of
/// curves are as they are in the files.
struct RunRecord {
  io::Path path;
  std::string name;  ///< Of its folder.
  RunState state = RunState::kUnknown;
  std::string holder;  ///< Of a run in progress: its process and host.

  std::vector<RunFact> configuration;
  std::vector<RunFact> result;
  std::vector<RunFact> machine;
  std::optional<std::int64_t> total_steps;        ///< That the training will make.
  std::optional<std::int64_t> examples_per_step;  ///< Of all replicas and workers.
  std::optional<std::int64_t> workers;
  std::vector<std::string> devices;  ///< Of the replicas of the process that writes the files.
  std::vector<PhaseFractions> step_fractions;  ///< [replica], over the whole run; empty until then.

  std::vector<Curve> training;
  std::vector<Curve> evaluation;
  std::vector<ProcessStart> starts;
  double last_time = 0;  ///< When values were written last, in seconds since 1970.
  std::vector<CheckpointRecord> checkpoints;
  /// What is not there or not readable, and why, one sentence each.
  std::vector<std::string> missing;
};

/// Reads the run in a model directory, again and again while the training runs: of event files it
/// then reads only what was added.
///
/// Thread-safety: one thread at a time.
class RunReader {
 public:
  /// Reads nothing yet.
  RunReader(std::shared_ptr<io::FileSystem> files, io::Path path);

  /// The run as it is now. What is broken or absent is named in `missing`. Throws kNotFound if
  /// nothing of a run is there, and kInvalidArgument if the path is not a folder.
  RunRecord read();

 private:
  void read_events(RunRecord& run);

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
  EventHistory training_;
  EventHistory evaluation_;
};

/// The value of a fact with this name; nothing if there is none.
std::optional<std::string> fact(const std::vector<RunFact>& facts, std::string_view name);

}  // namespace brigade::runs
