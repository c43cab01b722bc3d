#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/ps/parameter_server_strategy.h"
#include "brigade/ps/testing/local_service.h"
#include "brigade/variables/partitioner.h"

namespace brigade::distribute::testing {

/// The servers of the strategy below, which must outlive it: so this is its first base.
struct TwoLocalServers {
  cluster::ClusterSpec spec{std::map<std::string, std::vector<std::string>>{
      {"ps", {"127.0.0.1:1000", "127.0.0.1:1001"}}, {"worker", {"127.0.0.1:1002"}}}};
  ps::testing::LocalServers two_servers{{.servers = 2, .tasks = spec.training_tasks()}};
};

/// For tests: the only worker of a job with two parameter servers, which are in this process.
class LocalParameterServerStrategy : private TwoLocalServers, public ps::ParameterServerStrategy {
 public:
  LocalParameterServerStrategy(int replicas, ps::UpdateMode mode,
                               const variables::Partitioner& partitioner = {})
      : ParameterServerStrategy({.cluster = spec, .source = "this test"}, two_servers.connect(),
                                {.devices = cpus(replicas).devices,
                                 .allow_oversubscription = true,
                                 .mode = mode,
                                 .variable_partitioner = partitioner,
                                 .timeout = std::chrono::seconds(60),
                                 .server_timeout = std::chrono::seconds(60)}) {}
};

}  // namespace brigade::distribute::testing
