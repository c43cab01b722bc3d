#include "brigade/rpc/rendezvous.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/remote.h"

namespace brigade::rpc {
namespace {

KeyState state_of(const std::optional<cluster::ClusterKey>& key) {
  return key ? KeyState::kPresent : KeyState::kAbsent;
}

void check(const cluster::ClusterConfig& config, const JoinOptions& options) {
  check_argument(config.world_size >= 1,
                 base::str_cat("A cluster has a world size of 1 or more, not ", config.world_size,
                               " (from ", config.source, ")."));
  check_argument(
      config.rank >= 0 && config.rank < config.world_size,
      base::str_cat(config.task, " has rank ", config.rank, ", which is none of the ",
                    config.world_size, " that train together: it does not join their rendezvous."));
  check_argument(options.peer_timeout.count() >= 1, "join: peer_timeout must be above 0.");
  check_argument(options.start_timeout.count() >= 1, "join: start_timeout must be above 0.");
}

// The allocator may reserve this much per thread (glibc: 64 MiB, aligned).
constexpr std::size_t kSpare = std::size_t{128} << 20;

// gRPC 1.51: a pool with a thread a core (2 to 32), queues with one for two cores (2 to 16), timers
// and executors (4); two of Brigade's, and some to spare.
int num_threads() {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores, 2, 32) + std::clamp(cores / 2, 2, 16) + 8;
}

Error thread_refusal(const std::string& how, const std::system_error& error) {
  return Error(ErrorCode::kResourceExhausted,
               base::str_cat("The rendezvous of processes needs ", num_threads(), " threads, but ",
                             how, " (", error.code().message(),
                             "): raise the limits on processes and threads (ulimit -u) or on the "
                             "address space (ulimit -v)."));
}

/// Releases the waiting threads in any case.
struct Opener {
  std::latch& gate;
  ~Opener() { gate.count_down(); }
};

/// Besides its stack, a thread that allocates needs address space for its allocator arena. Without
/// this check one of gRPC's threads could take that space later and leave too little for the next
/// stack.
void require_address_space() {
  void* const spare = ::mmap(nullptr, kSpare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (spare == MAP_FAILED) {
    throw thread_refusal("the address space is too small",
                         std::system_error(errno, std::generic_category()));
  }
  ::munmap(spare, kSpare);
}

/// Starts as many threads as gRPC needs, and ends them. Throws kResourceExhausted if the system
/// refuses one (`ulimit -u`, `ulimit -v`, a cgroup limit): gRPC itself would wait forever for a
/// thread that it does not get.
void require_threads() {
  const int needed = num_threads();
  std::latch started(needed);
  std::latch gate(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(needed));
  const Opener opener{gate};  // before the threads are joined
  const auto stay = [&] {
    const auto memory = std::make_unique<std::vector<char>>(64);
    started.count_down();
    gate.wait();
  };
  try {
    while (static_cast<int>(threads.size()) < needed) threads.emplace_back(stay);
  } catch (const std::system_error& error) {
    throw thread_refusal(base::str_cat("only ", threads.size(), " could be started"), error);
  }
  started.wait();
  require_address_space();
}

/// Does what starts gRPC.
template <class Start>
auto with_threads(const Start& start) {
  if (is_built_in()) require_threads();
  try {
    return start();
  } catch (const std::system_error& error) {
    throw thread_refusal("one could not be started", error);
  }
}

}  // namespace

cluster::Member this_process(int rank, const cluster::Task& task) {
  return {.rank = rank,
          .task = task,
          .host = base::host_name(),
          .pid = ::getpid(),
          .identity = cluster::this_host_identity()};
}

std::unique_ptr<RendezvousServer> make_rendezvous_server(const RendezvousServerOptions& options) {
  check_argument(options.world_size >= 1, "A rendezvous needs a world_size of 1 or more.");
  check_argument(options.peer_timeout.count() >= 1, "A rendezvous needs a peer_timeout above 0.");
  check_argument(options.hello_timeout >= std::chrono::milliseconds(1) &&
                     options.hello_timeout <= std::chrono::hours(1),
                 "A rendezvous needs a hello_timeout above 0 and up to an hour.");
  const auto address = cluster::parse_address(options.address, cluster::PortZero::kAllowed);
  require_key_beyond_loopback(address, state_of(options.key), "listen on");
  return with_threads([&] {
    return make_remote_server(options, this_process(-1, {"launcher", 0}));
  });
}

std::shared_ptr<cluster::Membership> join(const cluster::ClusterConfig& config,
                                          const JoinOptions& options) {
  check(config, options);
  if (config.world_size == 1) {
    return make_local_membership(this_process(0, config.task), config.generation);
  }
  const auto address = cluster::parse_address(config.rendezvous);
  require_key_beyond_loopback(address, state_of(options.key), "connect to");
  options.cancel.throw_if_cancelled("Joining the cluster");
  return with_threads([&] { return join_remote(config, options); });
}

}  // namespace brigade::rpc
