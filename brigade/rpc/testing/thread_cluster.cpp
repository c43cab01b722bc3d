#include "brigade/rpc/testing/thread_cluster.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

namespace brigade::rpc::testing {

cluster::ClusterConfig launched_config(const std::string& address, int rank, int world_size) {
  cluster::ClusterConfig config;
  config.task = {"worker", rank};
  config.rank = rank;
  config.world_size = world_size;
  config.rendezvous = address;
  config.rendezvous_host = cluster::ClusterConfig::RendezvousHost::kLauncher;
  config.source = "the test";
  return config;
}

std::vector<Joined> join_together(const std::vector<cluster::ClusterConfig>& configs,
                                  const JoinOptions& options) {
  std::vector<Joined> joined(configs.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        joined[i].membership = join(configs[i], options);
      } catch (const Error& error) {
        joined[i].error = error;
      }
    });
  }
  threads.clear();
  return joined;
}

Error join_error(const cluster::ClusterConfig& config, const JoinOptions& options) {
  try {
    join(config, options);
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("it joined");
}

std::vector<std::shared_ptr<cluster::Membership>> join_all(const RendezvousServer& server,
                                                           int world_size,
                                                           const JoinOptions& options) {
  std::vector<cluster::ClusterConfig> configs;
  for (int rank = 0; rank < world_size; ++rank) {
    configs.push_back(launched_config(server.address(), rank, world_size));
  }
  std::vector<std::shared_ptr<cluster::Membership>> memberships;
  for (auto& one : join_together(configs, options)) {
    if (one.error) throw *one.error;
    memberships.push_back(std::move(one.membership));
  }
  return memberships;
}

JoinOptions test_options() {
  return {.key = std::nullopt, .start_timeout = std::chrono::seconds(20)};
}

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool is_bound =
      ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(descriptor);
  check_state(is_bound, "The test found no free port.");
  return ntohs(address.sin_port);
}

bool eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace brigade::rpc::testing
