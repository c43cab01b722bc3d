#pragma once

#include <string>
#include <vector>

#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// How far all servers of a job are: what each answered before training begins.
///
/// Thread-safety: a value.
class ServerStatuses {
 public:
  /// [server]: its answer, and its name for messages, "parameter server 1 (host:port)".
  ServerStatuses(std::vector<ServerStatus> statuses, std::vector<std::string> names);

  /// Whether a job is in progress.
  bool is_any_ready() const;
  /// Whether one server is ready while another has no variables.
  bool is_partly_ready() const;
  /// The names of those that are not ready: "parameter server 0 (...), parameter server 2 (...)".
  std::string not_ready() const;

  /// Throws kDataLoss, naming it, for a server without variables while another is ready.
  void check_whole() const;
  /// Throws kFailedPrecondition, naming it, for a server that the chief has configured otherwise.
  void check_job(const JobConfig& job) const;

 private:
  std::vector<ServerStatus> statuses_;
  std::vector<std::string> names_;
};

}  // namespace brigade::ps
