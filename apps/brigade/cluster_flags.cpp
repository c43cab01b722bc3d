#include "apps/brigade/cluster_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/seconds.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/resolver.h"

namespace brigade::command {
namespace {

constexpr const char* kClusterGroup = "Cluster";

comm::WireType wire_type(const std::string& text) {
  check_choice("value of --wire", text, {"full", "bf16", "fp16"});
  if (text == "bf16") return comm::WireType::kBFloat16;
  return text == "fp16" ? comm::WireType::kFloat16 : comm::WireType::kFull;
}

/// Unset for "auto".
std::optional<std::int64_t> parse_bytes_per_pack(const std::string& text) {
  if (text == "auto") return std::nullopt;
  std::int64_t bytes = -1;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, bytes);
  if (read.ec == std::errc() && read.ptr == end && bytes >= 0) return bytes;
  throw UsageError(base::str_cat("--bytes-per-pack is ", base::quoted(text),
                                 "; give a number of bytes, at least 0, or auto"));
}

/// Seconds, with or without their unit: "30s", "30".
CLI::Option* add_seconds(CLI::App& app, const char* flag, double& seconds, const char* text) {
  return app.add_option(flag, seconds, text)
      ->transform([](std::string value) {
        if (value.size() > 1 && value.back() == 's') value.pop_back();
        return value;
      })
      ->capture_default_str()
      ->group(kClusterGroup);
}

}  // namespace

void ClusterFlags::add_to(CLI::App& app) {
  app.add_option("--cluster", cluster,
                 "multi_worker_mirrored: the cluster's tasks: worker=a:1,b:1 or a JSON file "
                 "(default: TF_CONFIG, or the launcher's environment)")
      ->group(kClusterGroup);
  app.add_option("--task", task, "Which task this process is: worker:1")->group(kClusterGroup);
  app.add_option("--key-file", key_file,
                 "The cluster's key; without it nothing is sent beyond this machine")
      ->group(kClusterGroup);
  add_seconds(app, "--start-timeout", start_timeout_seconds,
              "How long to wait until all workers have joined");
  add_seconds(app, "--peer-timeout", peer_timeout_seconds,
              "A worker that sends no heartbeat for so long is lost");
  app.add_option("--transport", transport,
                 "Between processes: auto, shared_memory, gloo (tcp), mpi, nccl")
      ->capture_default_str()
      ->group(kClusterGroup);
  app.add_option("--wire", wire, "Gradients between processes: full, bf16, fp16")
      ->capture_default_str()
      ->group(kClusterGroup);
  app.add_option(
         "--bytes-per-pack", bytes_per_pack,
         "Gradients are sent in buckets of so many bytes, while backward is running; 0: all "
         "together after it; auto: tuned in the first steps")
      ->capture_default_str()
      ->group(kClusterGroup);
}

void ClusterFlags::apply_to(distribute::MultiWorkerMirroredOptions& options) const {
  options.join.start_timeout = to_milliseconds("--start-timeout", start_timeout_seconds);
  options.join.peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds);
  if (!key_file.empty()) options.join.key = cluster::ClusterKey::read(key_file);
  options.communication.transport = comm::parse_transport(transport);
  options.communication.wire = wire_type(wire);
  options.communication.bytes_per_pack = parse_bytes_per_pack(bytes_per_pack);
}

cluster::ClusterConfig ClusterFlags::resolve() const {
  return cluster::resolve_cluster(cluster::process_environment(),
                                  {.cluster = cluster, .task = task});
}

}  // namespace brigade::command
