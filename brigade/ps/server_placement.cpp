#include "brigade/ps/server_placement.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/machine/device_spec.h"

namespace brigade::ps {

namespace {

constexpr const char* kJobOfServers = "ps";

}  // namespace

device::PlacementStrategy greedy_by_bytes(int servers) {
  return device::greedy_load_balancing_strategy(servers, device::byte_size_load);
}

std::string ServerTasks::name(int server) const {
  const int index = indices.empty() ? server : indices.at(static_cast<std::size_t>(server));
  return machine::DeviceSpec{.job = kJobOfServers, .task = index}.to_string();
}

std::optional<int> requested_server(const std::string& device, const std::string& variable,
                                    int servers, const ServerTasks& tasks) {
  const auto spec = machine::DeviceSpec::parse(device);
  if (spec.job != kJobOfServers || !spec.task) return std::nullopt;
  std::vector<std::string> existing;
  for (int server = 0; server < servers; ++server) {
    existing.push_back(tasks.name(server));
    const int index =
        tasks.indices.empty() ? server : tasks.indices.at(static_cast<std::size_t>(server));
    if (index == *spec.task) return server;
  }
  const std::string message =
      base::str_cat("A device scope places variable ", base::quoted(variable), " on ", device,
                    ", and the parameter servers are ", base::listed(existing, ", "));
  if (tasks.missing == device::MissingDevice::kRefuse)
    throw Error(ErrorCode::kNotFound, message + ": name one of them.");
  base::log_warning(message + ": it is placed by ps_strategy.");
  return std::nullopt;
}

device::DeviceFunction replica_device_setter(const cluster::ClusterSpec& cluster,
                                             device::ReplicaDeviceSetterOptions options) {
  const auto job = machine::DeviceSpec::parse(options.ps_device).job;
  options.ps_tasks = job ? cluster.num_tasks(*job) : 0;
  return device::replica_device_setter(options);
}

std::vector<PlacedVariable> place_variables(std::span<const VariableSize> variables, int servers,
                                            const ServerPlacement& placement) {
  check_argument(servers > 0, "Variables are to be placed on ", servers,
                 " servers; there must be at least 1.");
  const device::PlacementStrategy choose =
      placement ? placement(servers) : device::round_robin_strategy(servers);
  std::vector<PlacedVariable> placed;
  placed.reserve(variables.size());
  for (const auto& [name, bytes, is_trainable, chosen] : variables) {
    const int server =
        chosen ? *chosen
               : choose({.name = name, .kind = device::PlacedKind::kVariable, .bytes = bytes});
    if (server < 0 || server >= servers)
      throw Error(ErrorCode::kOutOfRange, "The placement strategy chose server ", server,
                  " for variable ", base::quoted(name), "; there are ", servers,
                  ", numbered from 0.");
    placed.push_back({.name = name, .server = server, .is_trainable = is_trainable});
  }
  return placed;
}

}  // namespace brigade::ps
