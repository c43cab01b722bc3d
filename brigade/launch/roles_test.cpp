#include "brigade/launch/roles.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "brigade/cluster/address.h"

namespace brigade::launch {
namespace {

using Labels = std::vector<std::string>;

/// The labels of the processes of each host.
std::vector<Labels> labels_by_host(const Roles& roles) {
  std::vector<Labels> hosts;
  int process = 0;
  for (int host = 0; host < roles.hosts; ++host) {
    Labels& labels = hosts.emplace_back();
    for (int i = 0; i < num_processes_on(roles, host); ++i)
      labels.push_back(label_of(roles, process++));
  }
  EXPECT_EQ(process, num_processes(roles));
  return hosts;
}

TEST(Roles, WorkersComeFirstThenTheEvaluatorThenTheServers) {
  const Roles roles{.servers = 2, .workers = 3, .has_evaluator = true};
  EXPECT_EQ(
      labels_by_host(roles),
      (std::vector<Labels>{{"worker:0", "worker:1", "worker:2", "evaluator:0", "ps:0", "ps:1"}}));
  EXPECT_FALSE(is_server(roles, 3));
  EXPECT_FALSE(is_worker(roles, 3));
  EXPECT_TRUE(is_server(roles, 4));
  EXPECT_TRUE(is_chief(roles, 0));
  EXPECT_FALSE(is_chief(roles, 1));
  EXPECT_EQ(num_clients_on(roles, 0), 4);
}

TEST(Roles, TasksAreDealtToTheHostsRoundRobinTheServersFirst) {
  EXPECT_EQ(
      labels_by_host({.servers = 2, .workers = 4, .hosts = 2}),
      (std::vector<Labels>{{"worker:0", "worker:2", "ps:0"}, {"worker:1", "worker:3", "ps:1"}}));
  const Roles one_server{.servers = 1, .workers = 3, .has_evaluator = true, .hosts = 3};
  EXPECT_EQ(labels_by_host(one_server),
            (std::vector<Labels>{{"worker:2", "ps:0"}, {"worker:0", "evaluator:0"}, {"worker:1"}}));
  EXPECT_EQ(num_clients_on(one_server, 0), 1);
  EXPECT_EQ(num_clients_on(one_server, 1), 2);
  EXPECT_TRUE(is_chief(one_server, 2));
  EXPECT_EQ(labels_by_host({.servers = 3, .workers = 2, .hosts = 2}),
            (std::vector<Labels>{{"worker:1", "ps:0", "ps:2"}, {"worker:0", "ps:1"}}));
}

TEST(Roles, AReplicaIsOnAnotherHostThanItsServer) {
  EXPECT_EQ(labels_by_host({.servers = 2, .server_replicas = 2, .workers = 2}),
            (std::vector<Labels>{
                {"worker:0", "worker:1", "ps:0", "ps:1", "ps_replica:0", "ps_replica:1"}}));
  EXPECT_EQ(labels_by_host({.servers = 1, .server_replicas = 2, .workers = 2, .hosts = 2}),
            (std::vector<Labels>{{"worker:0", "ps:0"}, {"worker:1", "ps_replica:0"}}));
  EXPECT_EQ(labels_by_host({.servers = 2, .server_replicas = 2, .workers = 2, .hosts = 2}),
            (std::vector<Labels>{{"worker:0", "ps:0", "ps_replica:1"},
                                 {"worker:1", "ps:1", "ps_replica:0"}}));
  for (int servers = 1; servers <= 6; ++servers) {
    for (int hosts = 2; hosts <= 5; ++hosts) {
      const Roles roles{.servers = servers, .server_replicas = 2, .workers = 4, .hosts = hosts};
      std::map<std::string, int> host_of;
      const std::vector<Labels> labels = labels_by_host(roles);
      for (int host = 0; host < hosts; ++host)
        for (const std::string& label : labels[static_cast<std::size_t>(host)])
          host_of[label] = host;
      EXPECT_EQ(num_servers(roles), 2 * servers);
      for (int server = 0; server < servers; ++server) {
        const std::string index = std::to_string(server);
        ASSERT_TRUE(host_of.contains("ps_replica:" + index)) << servers << " on " << hosts;
        EXPECT_NE(host_of["ps:" + index], host_of["ps_replica:" + index])
            << servers << " on " << hosts;
      }
    }
  }
  const Roles roles{.servers = 1, .server_replicas = 2, .workers = 1};
  EXPECT_TRUE(is_server(roles, 2));
  EXPECT_EQ(num_clients_on(roles, 0), 1);
}

TEST(Roles, AChiefThatIsNoWorkerComesBeforeTheWorkers) {
  const Roles roles{
      .servers = 1, .workers = 2, .has_evaluator = true, .has_chief = true, .hosts = 2};
  EXPECT_EQ(labels_by_host(roles),
            (std::vector<Labels>{{"worker:0", "evaluator:0", "ps:0"}, {"chief:0", "worker:1"}}));
  EXPECT_TRUE(is_chief(roles, 3) && is_worker(roles, 3));
  EXPECT_TRUE(is_worker(roles, 0) && !is_chief(roles, 0));
  EXPECT_EQ(num_workers(roles), 3);
  const Roles alone{.servers = 1, .workers = 1, .has_chief = true};
  EXPECT_EQ(labels_by_host(alone), (std::vector<Labels>{{"chief:0", "worker:0", "ps:0"}}));
}

TEST(Roles, EachTaskHasItsAddressThatNoOtherHostAndNoConnectionGets) {
  const Roles roles{.servers = 2, .workers = 2, .has_evaluator = true, .hosts = 2};
  std::vector<std::string> addresses;
  std::set<int> ports;
  for (int host = 0; host < roles.hosts; ++host) {
    for (const std::string& address : free_addresses(roles, host, "127.0.0.1")) {
      const cluster::Address parsed = cluster::parse_address(address);
      EXPECT_EQ(parsed.host, "127.0.0.1");
      EXPECT_GE(parsed.port, 15000);
      EXPECT_LT(parsed.port, 30000);
      EXPECT_EQ(parsed.port % 2, host);
      EXPECT_TRUE(ports.insert(parsed.port).second) << address;
      addresses.push_back(address);
    }
  }
  const cluster::ClusterSpec cluster = cluster_of(roles, addresses);
  for (int process = 0; process < num_processes(roles); ++process) {
    EXPECT_EQ(cluster.task_address(task_of(roles, process)),
              addresses[static_cast<std::size_t>(process)]);
  }
}

}  // namespace
}  // namespace brigade::launch
