#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/brigade/report.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of a pipeline: of its stages, and of what passes through them.
struct StageFlags {
  std::optional<std::string> cut;             ///< default auto
  std::optional<std::int64_t> micro_batches;  ///< default four a stage
  std::optional<std::int64_t> replicas;       ///< of the pipeline; default 1
  std::optional<std::string> schedule;        ///< default 1f1b
  std::optional<std::int64_t> chunks;         ///< default 2 if interleaved, else 1

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work, alone or with these devices in each of so many
  /// processes.
  void check(const std::vector<std::string>& devices, int processes) const;
  /// Throws UsageError, naming the first flag that was given, which `strategy` has not.
  void check_none(const std::string& strategy) const;
  /// Throws UsageError, naming the nearest, if `model` with these layers cannot be cut as the flags
  /// say, into a stage for each device.
  void check_layers(const std::string& model, const std::vector<std::string>& layers,
                    int devices) const;
  void apply_to(distribute::PipelineStrategyOptions& options) const;

  bool is_automatic() const { return cut.value_or("auto") == "auto"; }
  std::vector<std::string> cut_layers() const;
  std::string schedule_name() const { return schedule.value_or("1f1b"); }
  std::int64_t num_replicas() const { return replicas.value_or(1); }
  std::int64_t num_chunks() const {
    return chunks.value_or(schedule_name() == "interleaved" ? 2 : 1);
  }

 private:
  void check_chunks() const;
  void check_replicas(int processes) const;
  void check_workers(const std::vector<std::string>& devices, int workers) const;
};

/// The values of `--pipeline-schedule`.
const std::vector<std::string>& pipeline_schedule_names();

/// Adds to a training's result where `pipeline` was cut, and what its stages cost; null for what
/// was not measured. `peaks`: [stage], the most micro-batches in a step that a stage kept.
void add_stages(Json& result, const distribute::PipelineStrategy& pipeline,
                const std::vector<int>& peaks);

}  // namespace brigade::command
