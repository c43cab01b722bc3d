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
  std::optional<std::string> warmup;
  std::optional<std::int64_t> base_batch;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// The updates of a training.
  struct Steps {
    std::optional<std::int64_t> total = std::nullopt;     ///< unset: not known
    std::optional<std::int64_t> in_epoch = std::nullopt;  ///< unset: not known
  };
  /// The schedule that begins with `rate`; null for a constant rate. Throws UsageError if a number
  /// of steps is needed that is not known.
  optim::SchedulePtr make(double rate, std::int64_t global_batch, const Steps& steps) const;
  /// Adds the keys of the schedule to a configuration, null for those that do not apply.
  void describe(Json& configuration) const;

 private:
  bool is_changing() const { return schedule != "constant" || warmup || base_batch; }
  std::int64_t warmup_steps(const Steps& steps) const;
  optim::SchedulePtr decaying(double rate, const Steps& steps) const;
};

}  // namespace brigade::command
