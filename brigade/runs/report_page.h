#pragma once

#include <span>
#include <string>

#include "brigade/runs/run_record.h"

namespace brigade::runs {

/// Options of the page of a report.
struct ReportOptions {
  /// The time that the page names as its own, in seconds since 1970.
  double time = 0;
  /// The points of each curve on the page; longer curves are thinned.
  std::size_t most_points = 1'000;
};

/// One HTML page about these runs, which needs no network and no other file: curves, rates, the
/// times of steps, memory, placement, configuration, machine, processes, checkpoints. Names and
/// values are data for the page's own script alone, which shows them as text: whatever they are,
/// they are neither markup nor script, and the page's policy lets no other script run. Throws
/// kInvalidArgument without runs. Thread-safety: a pure function.
std::string report_page(std::span<const RunRecord> runs, const ReportOptions& options);

/// The data of that page, as JSON without the characters <, > and &.
std::string report_data(std::span<const RunRecord> runs, const ReportOptions& options);

}  // namespace brigade::runs
