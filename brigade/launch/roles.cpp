#include "brigade/launch/roles.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <random>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"

namespace brigade::launch {

namespace {

// Below the ports that Linux gives to connections by default. A connection to a port of those, on
// which nobody listens, may connect to itself.
constexpr int kFirstPort = 15000;
constexpr int kLastPort = 29999;
constexpr int kTries = 2000;

bool is_free(int port, bool is_on_loopback) {
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(is_on_loopback ? INADDR_LOOPBACK : INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return probe.is_open() &&
         ::bind(probe.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

/// Ports whose remainder by `hosts` is `host`.
std::set<int> free_ports(int count, int host, int hosts, bool is_on_loopback) {
  std::random_device source;
  std::uniform_int_distribution<int> ports(kFirstPort / hosts + 1, kLastPort / hosts - 1);
  std::set<int> found;
  for (int i = 0; i < kTries + 2 * count && static_cast<int>(found.size()) < count; ++i) {
    const int port = ports(source) * hosts + host;
    if (is_free(port, is_on_loopback)) found.insert(port);
  }
  if (static_cast<int>(found.size()) == count) return found;
  throw Error(ErrorCode::kResourceExhausted, "The job needs ", count, " free ports from ",
              kFirstPort, " to ", kLastPort, " on this machine, and ", found.size(),
              " were found.");
}

/// How many of `count` tasks a host gets if they are dealt in turn, from host 0 on.
int dealt_to(int host, int hosts, int count) {
  return count / hosts + (host < count % hosts ? 1 : 0);
}

/// The replica that is dealt as the task `dealt`: of a server on another host, if there are
/// several.
int replica_at(const Roles& roles, int dealt) {
  const int replica = dealt - roles.servers;
  const bool is_on_its_servers_host = roles.hosts > 1 && roles.servers % roles.hosts == 0;
  return is_on_its_servers_host ? (replica + 1) % roles.servers : replica;
}

}  // namespace

int num_workers(const Roles& roles) {
  return roles.workers + (roles.has_chief ? 1 : 0);
}

int num_servers(const Roles& roles) {
  return roles.servers * roles.server_replicas;
}

int num_processes(const Roles& roles) {
  return num_servers(roles) + num_workers(roles) + (roles.has_evaluator ? 1 : 0);
}

int num_processes_on(const Roles& roles, int host) {
  return dealt_to(host, roles.hosts, num_processes(roles));
}

int num_clients_on(const Roles& roles, int host) {
  return num_processes_on(roles, host) - dealt_to(host, roles.hosts, num_servers(roles));
}

cluster::Task task_of(const Roles& roles, int process) {
  int host = 0, local = process;
  for (; local >= num_processes_on(roles, host); ++host) local -= num_processes_on(roles, host);
  const int clients = num_clients_on(roles, host);
  const int servers = dealt_to(host, roles.hosts, num_servers(roles));
  // Its place among the tasks of this host in the order in which they are dealt.
  const int turn = local < clients ? servers + local : local - clients;
  const int dealt = host + turn * roles.hosts;
  if (dealt < roles.servers) return {.job = "ps", .index = dealt};
  if (dealt < num_servers(roles)) return {.job = "ps_replica", .index = replica_at(roles, dealt)};
  const int worker = dealt - num_servers(roles) - (roles.has_chief ? 1 : 0);
  if (worker < 0) return {.job = "chief", .index = 0};
  if (worker < roles.workers) return {.job = "worker", .index = worker};
  return {.job = "evaluator", .index = 0};
}

std::string label_of(const Roles& roles, int process) {
  const cluster::Task task = task_of(roles, process);
  return base::str_cat(task.job, ":", task.index);
}

bool is_server(const Roles& roles, int process) {
  const std::string job = task_of(roles, process).job;
  return job == "ps" || job == "ps_replica";
}

bool is_worker(const Roles& roles, int process) {
  return task_of(roles, process).job == "worker" || is_chief(roles, process);
}

bool is_chief(const Roles& roles, int process) {
  return task_of(roles, process) ==
         cluster::Task{.job = roles.has_chief ? "chief" : "worker", .index = 0};
}

std::vector<std::string> free_addresses(const Roles& roles, int host, const std::string& name) {
  std::vector<std::string> addresses;
  for (const int port :
       free_ports(num_processes_on(roles, host), host, roles.hosts, cluster::is_loopback(name)))
    addresses.push_back(cluster::to_string(cluster::Address{name, port}));
  return addresses;
}

cluster::ClusterSpec cluster_of(const Roles& roles, const std::vector<std::string>& addresses) {
  std::map<std::string, cluster::ClusterSpec::Tasks> jobs;
  for (int process = 0; process < static_cast<int>(addresses.size()); ++process) {
    const cluster::Task task = task_of(roles, process);
    jobs[task.job][task.index] = addresses[static_cast<std::size_t>(process)];
  }
  return cluster::ClusterSpec(std::move(jobs));
}

}  // namespace brigade::launch
