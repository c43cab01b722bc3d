#pragma once

#include <optional>
#include <string>

#include "brigade/launch/job_options.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of `brigade launch`, which comes before the program after `--`.
struct LaunchFlags {
  launch::JobOptions job;  ///< what the flags say in the job's own terms
  std::optional<int> processes;
  std::string elastic;
  double grace_seconds = 10.0;
  double peer_timeout_seconds = 8.0;
  std::string binding = "divide";
  std::string gpus = "divide";
  std::optional<int> host;
  double start_timeout_seconds = 300.0;
  std::string per_rank;
  bool independent = false;
  std::optional<int> servers;
  std::optional<int> server_replicas;
  std::optional<int> workers;
  bool evaluator = false;
  bool chief = false;
  std::string server_folder;
  std::string prefix = "rank";
  std::string output_dir;
  std::string key_file;
  bool new_key = false;
  bool json = false;

  /// With the examples that the help shows.
  void add_to(CLI::App& app);
};

}  // namespace brigade::command
