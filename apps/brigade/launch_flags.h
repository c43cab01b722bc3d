#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/launch/job_options.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of `brigade launch`.
struct LaunchFlags {
  std::optional<int> processes;
  int max_restarts = 0;
  std::string elastic;
  double grace_seconds = 10.0;
  double peer_timeout_seconds = 8.0;
  std::string binding = "divide";
  std::string gpus = "divide";
  std::optional<double> gpu_memory_fraction;
  int hosts = 1;
  std::optional<int> host;
  std::string rendezvous;
  double start_timeout_seconds = 300.0;
  std::string per_rank;
  bool independent = false;
  std::optional<int> status_port;
  std::string prefix = "rank";
  std::vector<int> shown_ranks;
  std::string output_dir;
  std::string key_file;
  bool new_key = false;
  bool json = false;

  void add_to(CLI::App& app);
  /// The options for a job of this program. Throws UsageError, and the errors of reading files.
  launch::JobOptions job_options(std::vector<std::string> program) const;
};

}  // namespace brigade::command
