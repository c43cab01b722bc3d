#include "apps/brigade/launch_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/seconds.h"
#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/command_line.h"

namespace brigade::command {
namespace {

std::optional<launch::ElasticRange> elastic_range(const std::string& text) {
  if (text.empty()) return std::nullopt;
  launch::ElasticRange range;
  const std::size_t colon = text.find(':');
  const auto number = [&](std::string_view part, int& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size();
  };
  const std::string_view view(text);
  if (colon == std::string::npos || !number(view.substr(0, colon), range.min) ||
      !number(view.substr(colon + 1), range.max)) {
    throw UsageError(base::str_cat("--elastic is ", text, "; give MIN:MAX, such as 2:4"));
  }
  return range;
}

/// The cards to divide: what CUDA_VISIBLE_DEVICES names, or all that the driver shows.
std::optional<std::vector<std::string>> visible_gpus() {
  std::vector<std::string> cards;
  if (const auto text = base::environment("CUDA_VISIBLE_DEVICES")) {
    std::istringstream stream(*text);
    for (std::string card; std::getline(stream, card, ',');) cards.push_back(card);
  } else {
    while (std::filesystem::exists(base::str_cat("/dev/nvidia", cards.size())))
      cards.push_back(std::to_string(cards.size()));
  }
  if (cards.empty()) return std::nullopt;
  return cards;
}

int number_of_processes(const std::optional<int>& given, std::size_t lines) {
  if (given) return *given;
  return lines == 0 ? 1 : static_cast<int>(lines);
}

launch::HostOptions host_options(const LaunchFlags& flags) {
  if (flags.hosts != 1 && !flags.host) {
    throw UsageError(base::str_cat("--nnodes is ", flags.hosts,
                                   ", but --node-rank does not say which host this is"));
  }
  if (flags.hosts > 1 && flags.rendezvous.empty()) {
    throw UsageError(
        "several hosts need --rendezvous HOST:PORT, where the launcher of host 0 listens for the "
        "others");
  }
  return {.count = flags.hosts,
          .index = flags.host.value_or(0),
          .rendezvous = flags.rendezvous,
          .start_timeout = to_milliseconds("--start-timeout", flags.start_timeout_seconds)};
}

}  // namespace

void LaunchFlags::add_to(CLI::App& app) {
  app.add_option("--nproc,--nproc-per-node,--nproc_per_node", processes,
                 "Processes on this machine (default: 1, or the lines of --per-rank)");
  app.add_option("--per-rank", per_rank,
                 "A file with a line of additional arguments for each process");
  app.add_flag("--independent", independent,
               "The processes do not train together: each runs alone, and a failure of one does "
               "not stop the others");
  app.add_option("--max-restarts", max_restarts, "Restart after a failure, at most so many times")
      ->capture_default_str();
  app.add_option("--elastic", elastic,
                 "MIN:MAX: continue without a lost process while MIN are left; SIGUSR1 to the "
                 "launcher adds one, up to MAX");
  app.add_option("--grace", grace_seconds, "Seconds between SIGTERM and SIGKILL")
      ->capture_default_str();
  app.add_option("--peer-timeout", peer_timeout_seconds,
                 "Seconds without a heartbeat after which a process is lost")
      ->capture_default_str();
  app.add_option("--bind", binding, "Cores: divide them among the processes, or none")
      ->capture_default_str();
  app.add_option("--gpus", gpus,
                 "GPUs (all, or those of CUDA_VISIBLE_DEVICES): divide them among the processes, "
                 "or none: each sees all")
      ->capture_default_str();
  app.add_option("--gpu-memory-fraction", gpu_memory_fraction,
                 "Fraction of each GPU's memory that a process made with Brigade may use: above 0, "
                 "up to 1");
  app.add_option("--status-port", status_port,
                 "Serve /healthz and /metrics (Prometheus) on 127.0.0.1; 0 takes a free port");
  app.add_option("--prefix", prefix, "Before each line of output: rank, or none")
      ->capture_default_str();
  app.add_option("--show-ranks", shown_ranks, "Show the output of these ranks only (0,2)")
      ->delimiter(',');
  app.add_option("--output-dir", output_dir, "Also write each rank's output to files here");
  app.add_option(
      "--key-file", key_file,
      "The cluster's key (default: BRIGADE_CLUSTER_KEY or BRIGADE_CLUSTER_KEY_FILE; without "
      "them, on one host, one is made for the job)");
  app.add_flag("--new-key", new_key, "Write a new cluster key to standard output and exit");
  constexpr const char* kHosts = "Several hosts (the same command on each, with its own number)";
  app.add_option("--nnodes", hosts, "Hosts")->capture_default_str()->group(kHosts);
  app.add_option("--node-rank,--node_rank", host, "Which host this is: 0, 1, ...")->group(kHosts);
  app.add_option("--rendezvous,--rdzv-endpoint,--rdzv_endpoint", rendezvous,
                 "HOST:PORT where the launcher of host 0 listens for the others")
      ->group(kHosts);
  app.add_option("--start-timeout", start_timeout_seconds,
                 "Seconds until all launchers must have joined")
      ->capture_default_str()
      ->group(kHosts);
  app.add_flag("--json", json, "Write one JSON object about the job, after its output");
}

launch::JobOptions LaunchFlags::job_options(std::vector<std::string> program) const {
  check_choice("value of --bind", binding, {"divide", "none"});
  check_choice("value of --gpus", gpus, {"divide", "none"});
  check_choice("value of --prefix", prefix, {"rank", "none"});
  std::vector<std::vector<std::string>> lines;
  if (!per_rank.empty()) lines = launch::read_argument_lines(per_rank);
  return {
      .command = std::move(program),
      .processes = number_of_processes(processes, lines.size()),
      .hosts = host_options(*this),
      .arguments_by_rank = lines,
      .coupling = independent ? launch::Coupling::kIndependent : launch::Coupling::kTogether,
      .max_restarts = max_restarts,
      .elastic = elastic_range(elastic),
      .grace = to_milliseconds("--grace", grace_seconds, ZeroSeconds::kAllowed),
      .peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds),
      .binding = binding == "divide" ? launch::CoreBinding::kDivide : launch::CoreBinding::kNone,
      .gpus = gpus == "divide" ? visible_gpus() : std::nullopt,
      .gpu_memory_fraction = gpu_memory_fraction,
      .output = {.prefix = prefix == "rank" ? launch::LinePrefix::kRank : launch::LinePrefix::kNone,
                 .ranks = shown_ranks,
                 .directory = output_dir},
      .key = key_file.empty() ? cluster::ClusterKey::from_environment()
                              : cluster::ClusterKey::read(key_file),
      .status_port = status_port};
}

}  // namespace brigade::command
