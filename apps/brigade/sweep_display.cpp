#include "apps/brigade/sweep_display.h"

#include <algorithm>

#include "apps/brigade/report.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

std::string metrics_text(const distribute::TrialMetrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += base::str_cat("  ", name, " ", fixed(value, 4));
  return text;
}

}  // namespace

SweepDisplay::SweepDisplay(std::ostream& out, std::vector<std::string> labels, Form form)
    : out_(out), labels_(std::move(labels)), form_(form), trials_(labels_.size()) {
  for (std::size_t trial = 0; trial < trials_.size(); ++trial)
    trials_[trial].index = static_cast<int>(trial);
}

void SweepDisplay::show(const distribute::TrialResult& trial) {
  trials_[static_cast<std::size_t>(trial.index)] = trial;
  form_ == Form::kRewrite ? rewrite() : write_line(trial);
}

void SweepDisplay::write_line(const distribute::TrialResult& trial) {
  std::string text =
      base::str_cat("trial ", trial.index, "  ", labels_[static_cast<std::size_t>(trial.index)],
                    "  ", to_string(trial.status));
  if (trial.status != distribute::TrialStatus::kRunning) {
    text += base::str_cat(" in ", fixed(trial.seconds, 1), " s", metrics_text(trial.metrics));
    if (!trial.reason.empty()) text += base::str_cat(": ", trial.reason);
  } else if (trial.reports.empty()) {
    text += base::str_cat(" on ", trial.device);
  } else {
    text += base::str_cat("  epoch ", trial.reports.back().epoch, metrics_text(trial.metrics));
  }
  out_ << base::printable(text) << std::endl;
}

void SweepDisplay::rewrite() {
  if (lines_ > 0) out_ << "\x1b[" << lines_ << "A\x1b[J";
  const std::string table = base::printable_lines(distribute::trial_table(trials_, labels_));
  lines_ = std::count(table.begin(), table.end(), '\n');
  out_ << table << std::flush;
}

}  // namespace brigade::command
