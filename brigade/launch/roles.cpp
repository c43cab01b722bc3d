#include "brigade/launch/roles.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <random>
#include <set>
#include <vector>

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

bool is_free_on_loopback(int port) {
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return probe.is_open() &&
         ::bind(probe.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

std::set<int> free_ports(int count) {
  std::random_device source;
  std::uniform_int_distribution<int> ports(kFirstPort, kLastPort);
  std::set<int> found;
  for (int i = 0; i < kTries + 2 * count && static_cast<int>(found.size()) < count; ++i) {
    const int port = ports(source);
    if (is_free_on_loopback(port)) found.insert(port);
  }
  if (static_cast<int>(found.size()) == count) return found;
  throw Error(ErrorCode::kResourceExhausted,
              base::str_cat("The job needs ", count, " free ports from ", kFirstPort, " to ",
                            kLastPort, " on this machine, and ", found.size(), " were found."));
}

}  // namespace

int first_server(const Roles& roles) {
  return roles.workers + (roles.has_evaluator ? 1 : 0);
}

int num_processes(const Roles& roles) {
  return first_server(roles) + roles.servers;
}

bool is_server(const Roles& roles, int process) {
  return process >= first_server(roles);
}

cluster::Task task_of(const Roles& roles, int process) {
  if (process < roles.workers) return {.job = "worker", .index = process};
  if (!is_server(roles, process)) return {.job = "evaluator", .index = 0};
  return {.job = "ps", .index = process - first_server(roles)};
}

std::string label_of(const Roles& roles, int process) {
  const cluster::Task task = task_of(roles, process);
  return base::str_cat(task.job, ":", task.index);
}

cluster::ClusterSpec make_cluster(const Roles& roles) {
  std::map<std::string, std::vector<std::string>> jobs;
  int process = 0;
  for (const int port : free_ports(num_processes(roles))) {
    jobs[task_of(roles, process++).job].push_back(
        cluster::to_string(cluster::Address{"127.0.0.1", port}));
  }
  return cluster::ClusterSpec(jobs);
}

}  // namespace brigade::launch
