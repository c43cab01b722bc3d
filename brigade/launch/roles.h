#pragma once

#include <string>
#include <vector>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/task.h"
#include "brigade/io/file_system.h"

namespace brigade::launch {

/// The tasks of a job with parameter servers, and the hosts on which they run.
///
/// Tasks are dealt to the hosts round-robin, the servers first, then their replicas, the chief, the
/// workers, and the evaluator: so servers are spread over the hosts, and hosts differ by one
/// process at most. Processes are numbered host by host; those of a host are in the same order, but
/// its servers last. On several hosts a server and its replica are on different ones.
///
/// Each process is restarted alone, on its host. The job ends when all processes have ended;
/// servers that still run some time after the last worker are asked to end, and so are workers that
/// still run some time after the chief and all servers, when the training has ended.
///
/// Thread-safety: a value.
struct Roles {
  int servers = 1;
  /// The processes of each server: with 2, "ps:N" has a replica, "ps_replica:N".
  int server_replicas = 1;
  int workers = 1;
  bool has_evaluator = false;
  /// There is a task chief:0, which coordinates or trains. Otherwise worker 0 is the chief.
  bool has_chief = false;
  int hosts = 1;
  /// Where servers keep their variables over restarts. Empty: a temporary folder, removed at the
  /// end.
  io::Path folder = {};
};

/// Of all hosts.
int num_processes(const Roles& roles);
int num_processes_on(const Roles& roles, int host);
/// With their replicas.
int num_servers(const Roles& roles);
/// Without the servers. These processes have the first numbers of their host.
int num_clients_on(const Roles& roles, int host);

cluster::Task task_of(const Roles& roles, int process);
/// "worker:1".
std::string label_of(const Roles& roles, int process);
/// A replica is one, too.
bool is_server(const Roles& roles, int process);
/// The chief is one, whatever it is called.
bool is_worker(const Roles& roles, int process);
int num_workers(const Roles& roles);
bool is_chief(const Roles& roles, int process);

/// Addresses for the processes of one of `hosts` hosts, whose name or IP address is `name`. The
/// ports were free a moment ago on this machine and are none of those that the system gives to
/// connections, so they stay free while a server is restarted. Different hosts get different ports,
/// even if they are one machine. Throws kResourceExhausted.
std::vector<std::string> free_addresses(const Roles& roles, int host, const std::string& name);

/// The cluster of tasks with these addresses, by process.
cluster::ClusterSpec cluster_of(const Roles& roles, const std::vector<std::string>& addresses);

}  // namespace brigade::launch
