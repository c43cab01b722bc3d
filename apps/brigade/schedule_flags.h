#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/brigade/report.h"
#include "brigade/optim/schedule.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of a learning rate that changes during the training.
struct ScheduleFlags {
  std::string schedule = "constant";
  std::optional<std::int64_t> decay_steps;
  std::optional<double> decay_factor;
  std::optional<std::int64_t> warmup_steps;
  std::optional<std::int64_t> base_batch;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// The schedule that begins with `rate`; null for a constant rate. `total_steps`: of the
  /// training, if that is known. Throws UsageError if it is needed and not known.
  optim::SchedulePtr make(double rate, std::int64_t global_batch,
                          std::optional<std::int64_t> total_steps) const;
  /// Adds the keys of the schedule to a configuration, null for those that do not apply.
  void describe(Json& configuration) const;

 private:
  bool is_changing() const { return schedule != "constant" || warmup_steps || base_batch; }
  optim::SchedulePtr decaying(double rate, std::optional<std::int64_t> total_steps) const;
};

}  // namespace brigade::command
