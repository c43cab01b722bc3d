#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/brigade/report.h"
#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"

namespace brigade::command {

/// How long an input is measured: so many seconds, or batches if they are given. Between two
/// batches `step_ms` are slept.
struct InputLength {
  double seconds = 3;
  std::optional<std::int64_t> batches{};
  double step_ms = 0;
};

/// What an input did while it was measured.
struct InputRun {
  std::string recipe;
  std::int64_t batches = 0;
  double seconds = 0;
  double examples_per_second = 0;
  /// What a checkpoint holds of the place that was reached.
  std::size_t position_bytes = 0;
  std::vector<data::StageStats> steps{};
};

/// Walks over the batches. The warm-up, in which autotuning finds its settings, is not measured.
InputRun run_input(const data::Dataset<input::LabeledBatch>& batches, const InputLength& length);
Json json_of(const InputRun& run);

/// Autotuning, and the same input with fixed numbers.
struct InputSweep {
  struct Fixed {
    std::int64_t map_threads;
    std::int64_t prefetch;
    double examples_per_second;
  };
  InputRun autotuned;
  std::vector<Fixed> fixed{};

  const Fixed& best() const;
};

/// Runs the input that `run(map threads, prefetched batches)` makes and measures with autotuning
/// and with numbers around that of the cores.
InputSweep sweep(const std::function<InputRun(std::int64_t, std::int64_t)>& run);
Json json_of(const InputSweep& sweep);
std::string text_of(const InputSweep& sweep);

}  // namespace brigade::command
