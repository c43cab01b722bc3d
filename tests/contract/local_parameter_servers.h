#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/ps/parameter_server_strategy.h"
#include "brigade/ps/testing/local_service.h"

namespace brigade::distribute::testing {

/// The servers of the strategy below, which must outlive it: so this is its first base.
struct TwoLocalServers {
  cluster::ClusterSpec cluster{std::map<std::string, std::vector<std::string>>{
      {"ps", {"127.0.0.1:1000", "127.0.0.1:1001"}}, {"worker", {"127.0.0.1:1002"}}}};
  ps::testing::LocalServers servers{{.servers = 2, .tasks = cluster.training_tasks()}};
};

/// For tests: the only worker of a job with two parameter servers, which are in this process.
class LocalParameterServerStrategy : private TwoLocalServers, public ps::ParameterServerStrategy {
 public:
  LocalParameterServerStrategy(int replicas, ps::UpdateMode mode)
      : ParameterServerStrategy({.cluster = cluster, .source = "this test"}, servers.connect(),
                                {.devices = cpus(replicas).devices,
                                 .allow_oversubscription = true,
                                 .mode = mode,
                                 .timeout = std::chrono::seconds(60),
                                 .server_timeout = std::chrono::seconds(60)}) {}
};

}  // namespace brigade::distribute::testing
