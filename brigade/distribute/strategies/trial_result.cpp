#include "brigade/distribute/strategies/trial_result.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "brigade/base/strings.h"

namespace brigade::distribute {
namespace {

using TableRow = std::vector<std::string>;

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string metric_text(const TrialMetrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? "-" : number(found->second, "%.6g");
}

std::string epochs_text(const TrialResult& result) {
  return result.reports.empty() ? "-" : base::str_cat(result.reports.back().epoch);
}

TableRow row_of(const TrialResult& result, const std::vector<std::string>& labels,
                const std::set<std::string>& metrics) {
  TableRow row = {base::str_cat(result.index)};
  const auto index = static_cast<std::size_t>(result.index);
  if (!labels.empty()) row.push_back(index < labels.size() ? labels[index] : "-");
  row.push_back(result.device.empty() ? "-" : result.device);
  row.emplace_back(to_string(result.status));
  row.push_back(epochs_text(result));
  row.push_back(number(result.seconds, "%.1f"));
  for (const std::string& name : metrics) row.push_back(metric_text(result.metrics, name));
  return row;
}

std::string aligned(const std::vector<TableRow>& rows) {
  std::string text;
  for (const TableRow& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      text += row[column];
      if (column + 1 == row.size()) break;
      std::size_t width = 0;
      for (const TableRow& each : rows) width = std::max(width, each[column].size());
      text.append(width - row[column].size() + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string_view to_string(TrialStatus status) {
  switch (status) {
    case TrialStatus::kQueued:
      return "queued";
    case TrialStatus::kRunning:
      return "running";
    case TrialStatus::kCompleted:
      return "completed";
    case TrialStatus::kStopped:
      return "stopped";
    case TrialStatus::kFailed:
      return "failed";
    case TrialStatus::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string trial_table(const std::vector<TrialResult>& results,
                        const std::vector<std::string>& labels) {
  std::set<std::string> metrics;
  for (const TrialResult& result : results)
    for (const auto& [name, value] : result.metrics) metrics.insert(name);
  TableRow head = {"trial"};
  if (!labels.empty()) head.emplace_back("parameters");
  head.insert(head.end(), {"device", "status", "epoch", "seconds"});
  head.insert(head.end(), metrics.begin(), metrics.end());
  std::vector<TableRow> rows = {head};
  for (const TrialResult& result : results) rows.push_back(row_of(result, labels, metrics));
  std::string text = aligned(rows);
  for (const TrialResult& result : results) {
    if (result.reason.empty()) continue;
    text += base::str_cat("trial ", result.index, " ", to_string(result.status), ": ",
                          result.reason, "\n");
  }
  return text;
}

}  // namespace brigade::distribute
