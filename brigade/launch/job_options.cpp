#include "brigade/launch/job_options.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"

namespace brigade::launch {

namespace {

void check_elastic(const JobOptions& options) {
  const ElasticRange& range = *options.elastic;
  check_argument(range.min >= 1 && range.min <= options.processes && options.processes <= range.max,
                 "An elastic job of ", range.min, " to ", range.max,
                 " processes cannot begin with ", options.processes, ".");
  check_argument(options.arguments_by_rank.empty() && options.coupling == Coupling::kTogether,
                 "An elastic job has one program with the same arguments for all its processes, "
                 "which train together.");
}

void check_hosts(const JobOptions& options) {
  const HostOptions& hosts = options.hosts;
  check_argument(hosts.count >= 1, "A job on ", hosts.count, " hosts was asked for; at least 1.");
  check_argument(hosts.index >= 0 && hosts.index < hosts.count, "This is host ", hosts.index,
                 ", but the job has hosts 0 to ", hosts.count - 1, ".");
  if (hosts.count == 1) {
    const int most = options.elastic ? options.elastic->max : options.processes;
    return check_shown_ranks(options, std::max(most, options.processes));
  }
  check_argument(!hosts.rendezvous.empty(),
                 "A job on several hosts needs the rendezvous address of its launchers: host 0's.");
  cluster::parse_address(hosts.rendezvous);
  check_argument(
      !options.elastic,
      "An elastic job runs on one host; on several, their numbers of processes stay as they are.");
  check_argument(options.coupling == Coupling::kTogether,
                 "Independent processes need no other host: launch them on each.");
}

void check_roles(const JobOptions& options) {
  const Roles& roles = *options.roles;
  check_argument(roles.servers >= 1 && roles.workers >= 1, "A job with roles has ", roles.servers,
                 " parameter servers and ", roles.workers, " workers; at least 1 of each.");
  check_argument(roles.server_replicas == 1 || roles.server_replicas == 2,
                 "Each parameter server of a job has ", roles.server_replicas,
                 " processes; 1, or 2 with a replica.");
  const int hosts = options.hosts.count;
  check_argument(roles.hosts == hosts, "The roles of the job are on ", roles.hosts,
                 " hosts, but it has ", hosts, ".");
  check_argument(num_processes(roles) >= hosts, "The roles of the job are ", num_processes(roles),
                 " processes for ", hosts, " hosts; each host needs one.");
  const int here = num_processes_on(roles, options.hosts.index);
  check_argument(options.processes == here, "The roles of the job are ", here,
                 " processes on host ", options.hosts.index, ", but it has ", options.processes,
                 ".");
  check_argument(
      !options.elastic && options.coupling == Coupling::kTogether &&
          options.arguments_by_rank.empty(),
      "A job with parameter servers restarts each process alone, with the same arguments for all: "
      "it is neither elastic nor independent, and has no arguments by rank.");
}

}  // namespace

std::string process_name(const JobOptions& options, int rank) {
  return options.roles ? label_of(*options.roles, rank) : base::str_cat("rank ", rank);
}

void check_shown_ranks(const JobOptions& options, int world_size) {
  for (const int rank : options.output.ranks) {
    check_argument(rank >= 0 && rank < world_size, "The output of rank ", rank,
                   " is to be shown, but the job has ranks 0 to ", world_size - 1, ".");
  }
}

void check(const JobOptions& options) {
  check_argument(!options.command.empty(), "There is no program to launch.");
  // With roles their number follows from the tasks: `check_roles`.
  check_argument(options.processes >= 1 || options.roles, "A job of ", options.processes,
                 " processes was asked for; at least 1.");
  check_argument(options.max_restarts >= 0, "The number of restarts is ", options.max_restarts,
                 "; 0 or more.");
  const std::size_t lines = options.arguments_by_rank.size();
  check_argument(lines == 0 || lines == static_cast<std::size_t>(options.processes),
                 "There are arguments for ", lines, " processes, but the job has ",
                 options.processes, ".");
  if (options.status_port) {
    check_argument(*options.status_port >= 0 && *options.status_port <= 65535,
                   "The status port is ", *options.status_port, "; 0 to 65535.");
  }
  if (const auto& fraction = options.gpu_memory_fraction) {
    check_argument(*fraction > 0.0 && *fraction <= 1.0, "The fraction of a GPU's memory is ",
                   *fraction, "; above 0 and up to 1.");
  }
  check_hosts(options);
  if (options.roles) check_roles(options);
  if (options.elastic) check_elastic(options);
}

}  // namespace brigade::launch
