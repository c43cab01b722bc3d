#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/brigade/report.h"
#include "brigade/rpc/http_client.h"
#include "brigade/runs/run_record.h"

namespace brigade::command {

/// What a status page (`brigade launch --status-port`, `brigade ps --metrics-port`) says of a job.
struct JobStatusPage {
  std::string problem;  ///< Why there is none now; empty if there is. Printable.
  bool is_stopping = false;
  std::map<std::string, double> values;  ///< Those without labels, by name.
  std::map<std::string, bool> is_up;     ///< By rank.
};

/// Reads the page's metrics, in Prometheus's text format; lines that are none are left out.
JobStatusPage parse_metrics(const std::string& text);

/// Asks for /metrics and /healthz. Throws as `rpc::http_get`.
JobStatusPage read_status_page(const rpc::LocalUrl& url);

/// A job at one moment: of a model directory, of a status page, or of both.
struct JobView {
  double time = 0;  ///< In seconds since 1970.
  std::optional<runs::RunRecord> run;
  std::optional<JobStatusPage> status;
};

/// The numbers of a view that are computed. Unset: not known.
struct JobNumbers {
  std::int64_t step = 0;
  std::optional<double> steps_per_second;
  std::optional<double> examples_per_second;
  std::optional<double> seconds_left;
  std::optional<double> loss;
  std::optional<double> resident_bytes;
  std::optional<double> seconds_since_values;
  /// [replica]: the fractions of the newest steps.
  std::vector<std::map<std::string, double>> step_fractions;
};
JobNumbers numbers_of(const JobView& view);

Json json_of(const JobView& view);
/// Some lines for a terminal, none longer than `width` characters.
std::string text_of(const JobView& view, std::size_t width);

}  // namespace brigade::command
