#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/runs/curve.h"
#include "brigade/summary/event_file_reader.h"

namespace brigade::runs {

/// A process that began or resumed a training: one event file.
struct ProcessStart {
  double time = 0;            ///< In seconds since 1970.
  std::int64_t step = 1;      ///< Its first step.
  std::int64_t repeated = 0;  ///< Steps that an earlier process had written about, made again.
  double pause = 0;  ///< Seconds since the last event of the process before it; 0 for the first.
  std::string host;  ///< According to the file's name; empty if it is not one of ours.
  std::string process;
};

/// The scalars in the event files of a folder, as TensorBoard shows them: what a resumed training
/// made again replaces what was there. `update` continues where it ended, so that a running
/// training can be followed.
///
/// Memory is bounded whatever the files hold: long curves are thinned, and tags beyond the first
/// `kMostCurves` are counted only.
///
/// Thread-safety: one thread at a time.
class EventHistory {
 public:
  static constexpr std::size_t kMostCurves = 2000;

  /// Reads nothing yet. A folder that does not exist has no events.
  EventHistory(std::shared_ptr<const io::FileSystem> files, io::Path folder);

  /// Reads what was written since the last time. Stops reading a broken file where it is broken,
  /// and adds a line to `problems`.
  void update();

  const std::map<std::string, Curve>& curves() const { return curves_; }
  const std::vector<ProcessStart>& starts() const { return starts_; }
  /// What could not be read, one line each; names as they are in the files.
  std::vector<std::string> problems() const;
  bool has_events() const { return !seen_.empty(); }
  /// When the last values were written, in seconds since 1970; 0 without one.
  double last_time() const { return last_time_; }

 private:
  void read_to_end(const io::Path& file);
  void add(const summary::Event& event, const io::Path& file);
  void begin_process(const summary::Event& event, const io::Path& file);
  void add(const std::string& tag, const CurvePoint& point);

  std::shared_ptr<const io::FileSystem> files_;
  io::Path folder_;
  std::set<io::Path> seen_;
  io::Path newest_;                                   // of reader_
  std::unique_ptr<summary::EventFileReader> reader_;  // null if the newest file is broken
  std::map<std::string, Curve> curves_;
  std::vector<ProcessStart> starts_;
  std::vector<std::string> problems_;
  std::int64_t left_out_ = 0;  // points of tags beyond kMostCurves
  std::int64_t last_step_ = 0;
  double last_time_ = 0;
};

}  // namespace brigade::runs
