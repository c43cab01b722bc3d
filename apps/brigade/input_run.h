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

/// How long an input is measured: in seconds, or in batches if they are given. It sleeps for
/// `step_ms` between two batches.
struct InputLength {
  double seconds = 3;
  std::optional<std::int64_t> batches{};
  double step_ms = 0;
};

/// The measurements of an input.
struct InputRun {
  std::string pipeline;
  std::int64_t batches = 0;
  double seconds = 0;
  double examples_per_second = 0;
  /// The size of the saved position.
  std::size_t position_bytes = 0;
  std::vector<data::StageStats> steps{};
};

/// Reads batches. The warm-up, in which autotuning finds its settings, is not measured.
InputRun run_input(const data::Dataset<input::LabeledBatch>& batches, const InputLength& length);
Json json_of(const InputRun& run);

/// The same input with autotuning and with fixed settings.
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

/// Calls `run(map threads, prefetched batches)`, which makes and measures an input, with
/// autotuning and with numbers of threads around that of the cores.
InputSweep sweep(const std::function<InputRun(std::int64_t, std::int64_t)>& run);
Json json_of(const InputSweep& sweep);
std::string text_of(const InputSweep& sweep);

}  // namespace brigade::command
