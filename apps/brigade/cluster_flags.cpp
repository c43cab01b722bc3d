#include "apps/brigade/cluster_flags.h"

#include <cstdint>
#include <utility>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::command {

namespace {

comm::WireDtype wire_type(const std::string& text) {
  check_choice("value of --wire", text, {"full", "bf16", "fp16"});
  if (text == "bf16") return comm::WireDtype::kBFloat16;
  return text == "fp16" ? comm::WireDtype::kFloat16 : comm::WireDtype::kFull;
}

/// Unset for "auto".
std::optional<std::int64_t> parse_bytes_per_pack(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const auto bytes = base::parse_int(text);
  if (bytes && *bytes >= 0) return bytes;
  throw UsageError("--bytes-per-pack is ", base::quoted(text),
                   "; give a number of bytes, at least 0, or auto");
}

}  // namespace

void ClusterFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Cluster");
  group.add(
      "--cluster", cluster,
      "multi_worker_mirrored, parameter_server: the cluster's tasks: worker=a:1,b:1 or "
      "'ps=a:1;worker=b:1,c:1' or a JSON file (default: TF_CONFIG, or the launcher's environment)");
  group.add("--task", task, "Which task this process is: worker:1");
  group.add("--key-file", key_file,
            "The cluster's key; without it nothing is sent beyond this machine");
  group.add_seconds("--start-timeout", start_timeout_seconds,
                    "How long to wait until all workers have joined");
  group.add_seconds("--peer-timeout", peer_timeout_seconds,
                    "A worker that sends no heartbeat for so long is lost");
  group.add("--transport", transport,
            "Between processes: auto, shared_memory, gloo (tcp), mpi, nccl");
  group.add("--wire", wire, "Gradients between processes: full, bf16, fp16");
  group.add("--bytes-per-pack", bytes_per_pack,
            "Gradients are sent in buckets of so many bytes, while backward is running; 0: all "
            "together after it; auto: tuned in the first steps");
}

void ClusterFlags::apply_to(rpc::JoinOptions& join,
                            comm::CommunicationOptions& communication) const {
  join.start_timeout = to_milliseconds("--start-timeout", start_timeout_seconds);
  join.peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds);
  if (!key_file.empty()) join.key = key();
  communication.transport = comm::parse_transport(transport);
  communication.wire = wire_type(wire);
  communication.bytes_per_pack = parse_bytes_per_pack(bytes_per_pack);
}

cluster::ClusterConfig ClusterFlags::resolve() const {
  return cluster::resolve_cluster(cluster::process_environment(),
                                  {.cluster = cluster, .task = task});
}

std::optional<cluster::ClusterKey> ClusterFlags::key() const {
  if (key_file.empty()) return cluster::ClusterKey::from_environment();
  return cluster::ClusterKey::read(key_file);
}

void ClusterFlags::check_no_workers(const std::string& strategy) const {
  const ClusterFlags defaults;
  for (const auto& [flag, is_given] :
       {std::pair("--cluster", !cluster.empty()), std::pair("--task", !task.empty()),
        std::pair("--transport", transport != defaults.transport),
        std::pair("--wire", wire != defaults.wire),
        std::pair("--bytes-per-pack", bytes_per_pack != defaults.bytes_per_pack)}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " trains in one process; leave out ", flag,
                     ", or use --strategy multi_worker_mirrored");
  }
}

void ClusterFlags::check_no_collectives(const std::string& strategy) const {
  const ClusterFlags defaults;
  for (const auto& [flag, is_given] :
       {std::pair("--transport", transport != defaults.transport),
        std::pair("--wire", wire != defaults.wire),
        std::pair("--bytes-per-pack", bytes_per_pack != defaults.bytes_per_pack)}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " has no collectives; leave out ", flag,
                     ", or use --strategy multi_worker_mirrored");
  }
}

void ClusterFlags::check_full_values(const std::string& strategy) const {
  const ClusterFlags defaults;
  for (const auto& [flag, is_given] :
       {std::pair("--wire", wire != defaults.wire),
        std::pair("--bytes-per-pack", bytes_per_pack != defaults.bytes_per_pack)}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " sends activations, as they are; leave out ", flag,
                     ", or use --strategy multi_worker_mirrored");
  }
}

}  // namespace brigade::command
