#include "brigade/launch/process_rendezvous.h"

#include <numeric>

#include "brigade/cluster/address.h"
#include "brigade/launch/rank_environment.h"

namespace brigade::launch {

namespace {

std::string rendezvous_host(const HostOptions& hosts) {
  if (hosts.count == 1) return "127.0.0.1";
  return cluster::parse_address(hosts.rendezvous).host;
}

}  // namespace

StartOrder ProcessRendezvous::open(StartOrder order) {
  if (options_.coupling == Coupling::kIndependent) return order;
  const int world_size = std::accumulate(order.processes.begin(), order.processes.end(), 0);
  order.rendezvous = rendezvous(order.generation, world_size);
  order.master = free_address(rendezvous_host(options_.hosts));
  return order;
}

std::string ProcessRendezvous::rendezvous(int generation, int world_size) {
  if (world_size == 1 || !rpc::is_built_in()) return {};
  if (server_) {
    server_->begin_generation(generation, world_size);
  } else {
    server_ = rpc::make_rendezvous_server(
        {.address = cluster::to_string(cluster::Address{rendezvous_host(options_.hosts), 0}),
         .key = options_.key,
         .world_size = world_size,
         .generation = generation,
         .peer_timeout = options_.peer_timeout,
         .on_lost =
             [this](const cluster::LostMember& lost, int now) {
               events_.put(Lost{now, lost});
             },
         .on_left =
             [this](const cluster::Member& member, int now) {
               events_.put(Left{now, member.rank});
             },
         .on_all_joined = [this](int now) { events_.put(AllJoined{now}); }});
  }
  return server_->address();
}

}  // namespace brigade::launch
