#pragma once

#include <string>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/task.h"
#include "brigade/io/file_system.h"

namespace brigade::launch {

/// The tasks of a job with parameter servers, all on one host. Its processes are numbered: the
/// workers from 0 on (worker 0 is the chief), then the evaluator, then the servers.
///
/// Each process is restarted alone. The job ends when all processes have ended; servers that still
/// run some time after the last worker are asked to end, and so are workers that still run some
/// time after the chief and all servers, when the training has ended.
///
/// Thread-safety: a value.
struct Roles {
  int servers = 1;
  int workers = 1;
  bool has_evaluator = false;
  /// Where servers keep their variables over restarts. Empty: a temporary folder, removed at the
  /// end.
  io::Path folder = {};
  /// The addresses of the tasks. Empty: free ports on loopback.
  cluster::ClusterSpec cluster = {};
};

int num_processes(const Roles& roles);
/// The number of the first server's process.
int first_server(const Roles& roles);
bool is_server(const Roles& roles, int process);
cluster::Task task_of(const Roles& roles, int process);
/// "worker:1".
std::string label_of(const Roles& roles, int process);

/// Addresses on loopback for all tasks. The ports were free a moment ago and are none of those that
/// the system gives to connections, so they stay free while a server is restarted. Throws
/// kResourceExhausted.
cluster::ClusterSpec make_cluster(const Roles& roles);

}  // namespace brigade::launch
