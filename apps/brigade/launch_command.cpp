#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/command_line.h"
#include "brigade/launch/job.h"
#include "brigade/launch/standard_output.h"

namespace brigade::command {
namespace {

using Json = nlohmann::json;

constexpr const char* kLaunchExamples = R"(Examples:
  brigade launch --nproc 2 -- brigade train --strategy multi_worker_mirrored --model-dir /tmp/run
      one model, trained by two processes of this machine
  brigade launch --nproc 4 --max-restarts 3 -- ./my_program --flag
      any program; after a failure all are restarted, up to three times
  brigade launch --nproc 2 --output-dir /tmp/logs --show-ranks 0 -- python3 train.py
      every process's output in files, that of rank 0 also shown
  brigade launch --nproc 4 --elastic 2:4 --status-port 9400 -- ./my_program
      continues with fewer when one is killed; Prometheus can read http://127.0.0.1:9400/metrics
  brigade launch --independent --per-rank rates.txt -- brigade train --model-dir /tmp/sweep/{rank}
      independent models: each line of rates.txt, such as "--learning-rate 0.1", has the
      additional arguments of one of them
  brigade launch --ps 2 --workers 4 --evaluator -- brigade train --strategy parameter_server --model-dir /tmp/run
      parameter servers, workers and an evaluator, each with its TF_CONFIG; each is restarted alone
  brigade launch --ps 1 --ps-replicas 2 --workers 4 -- brigade train --strategy parameter_server --model-dir /tmp/run
      the server has a replica with the same variables, which serves when the server is lost
  brigade launch --nnodes 2 --node-rank 0 --rendezvous a:29400 --key-file cluster.key --nproc 4 -- ./my_program
      on host a, and the same with --node-rank 1 on host b: one job of eight processes
  brigade launch --nnodes 2 --node-rank 0 --rendezvous a:29400 --key-file cluster.key --ps 2 --workers 4 -- brigade train --strategy parameter_server --model-dir /shared/run
      on host a, and the same with --node-rank 1 on host b: a server and two workers on each
  (umask 077; brigade launch --new-key > cluster.key)
      the key that the members of a cluster on several machines share

Each process finds RANK, WORLD_SIZE, LOCAL_RANK and the rendezvous address in its environment, or with --ps its
TF_CONFIG. In the program's arguments, {rank} and {world_size} are replaced by the numbers. The exit code is 0 if
all succeeded, else that of the process that failed first (128 plus the number if a signal killed it). SIGINT and
SIGTERM are sent to all processes (130, 75); a second one kills them.)";

// At the end, for a reader that does not read; shorter if the launcher was asked to stop.
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kShortPatience = std::chrono::seconds(1);

Json as_json(const launch::JobResult& result, std::int64_t dropped_lines) {
  Json failures = Json::array();
  for (const launch::RankFailure& failure : result.failures) {
    std::vector<std::string> others;
    for (const launch::OtherRank& other : failure.others) others.push_back(other.text);
    failures.push_back({{"rank", failure.rank < 0 ? Json() : Json(failure.rank)},
                        {"task", failure.task.empty() ? Json() : Json(failure.task)},
                        {"reason", failure.reason},
                        {"generation", failure.generation},
                        {"seconds", static_cast<double>(failure.after.count()) / 1e3},
                        {"last_lines", failure.last_lines},
                        {"others", others}});
  }
  Json lost = Json::array();
  for (const launch::LostOutput& each : result.lost_output)
    lost.push_back({{"file", each.file}, {"reason", each.reason}, {"bytes", each.bytes}});
  return {{"exit_code", result.exit_code}, {"processes", result.processes},
          {"restarts", result.restarts},   {"membership_changes", result.membership_changes},
          {"failures", failures},          {"lost_output", lost},
          {"dropped_lines", dropped_lines}};
}

struct LaunchFlags {
  launch::JobOptions job;  ///< what the flags say in the job's own terms
  std::optional<int> processes;
  std::string elastic;
  double grace_seconds = 10.0;
  double peer_timeout_seconds = 8.0;
  std::string binding = "divide";
  std::string gpus = "divide";
  std::optional<int> host;
  double start_timeout_seconds = 300.0;
  std::string per_rank;
  bool independent = false;
  std::optional<int> servers;
  std::optional<int> server_replicas;
  std::optional<int> workers;
  bool evaluator = false;
  bool chief = false;
  std::string server_folder;
  std::string prefix = "rank";
  std::string output_dir;
  std::string key_file;
  bool new_key = false;
  bool json = false;

  void add_to(CLI::App& app);
  /// The options for a job of this program. Throws UsageError, and the errors of reading files.
  launch::JobOptions job_options(std::vector<std::string> program) const;
};

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

/// The roles of the processes, if there are parameter servers.
std::optional<launch::Roles> roles_of(const LaunchFlags& flags) {
  if (!flags.servers) {
    for (const auto& [flag, is_given] :
         {std::pair("--workers", flags.workers.has_value()),
          std::pair("--ps-replicas", flags.server_replicas.has_value()),
          std::pair("--evaluator", flags.evaluator), std::pair("--chief", flags.chief),
          std::pair("--ps-folder", !flags.server_folder.empty())}) {
      if (!is_given) continue;
      throw UsageError(base::str_cat(
          flag, " is for a job with parameter servers (--ps); without them give --nproc"));
    }
    return std::nullopt;
  }
  for (const auto& [flag, is_given] : {std::pair("--nproc", flags.processes.has_value()),
                                       std::pair("--per-rank", !flags.per_rank.empty()),
                                       std::pair("--independent", flags.independent),
                                       std::pair("--elastic", !flags.elastic.empty())}) {
    if (!is_given) continue;
    throw UsageError(base::str_cat(flag,
                                   " and --ps exclude each other; with parameter servers, "
                                   "--workers says how many processes train"));
  }
  check_at_least("--ps", *flags.servers, 1);
  check_at_least("--workers", flags.workers.value_or(1), 1);
  const int replicas = flags.server_replicas.value_or(1);
  if (replicas != 1 && replicas != 2)
    throw UsageError(
        base::str_cat("--ps-replicas is ", replicas, "; give 1, or 2 for servers with a replica"));
  check_at_least("--nnodes", flags.job.hosts.count, 1);
  return launch::Roles{.servers = *flags.servers,
                       .server_replicas = replicas,
                       .workers = flags.workers.value_or(1),
                       .has_evaluator = flags.evaluator,
                       .has_chief = flags.chief,
                       .hosts = flags.job.hosts.count,
                       .folder = flags.server_folder.empty()
                                     ? io::Path()
                                     : std::filesystem::absolute(flags.server_folder)};
}

void check_hosts(const LaunchFlags& flags) {
  const launch::HostOptions& hosts = flags.job.hosts;
  if (hosts.count != 1 && !flags.host) {
    throw UsageError(base::str_cat("--nnodes is ", hosts.count,
                                   ", but --node-rank does not say which host this is"));
  }
  if (hosts.count > 1 && hosts.rendezvous.empty()) {
    throw UsageError(
        "several hosts need --rendezvous HOST:PORT, where the launcher of host 0 listens for the "
        "others");
  }
}

void LaunchFlags::add_to(CLI::App& app) {
  FlagGroup flags(app);
  flags.add("--nproc,--nproc-per-node,--nproc_per_node", processes,
            "Processes on this machine (default: 1, or the lines of --per-rank)");
  flags.add("--per-rank", per_rank, "A file with a line of additional arguments for each process");
  flags.add_switch(
      "--independent", independent,
      "The processes do not train together: each runs alone, and a failure of one does "
      "not stop the others");
  flags.add("--max-restarts", job.max_restarts, "Restart after a failure, at most so many times");
  flags.add("--elastic", elastic,
            "MIN:MAX: continue without a lost process while MIN are left; SIGUSR1 to the "
            "launcher adds one, up to MAX");
  flags.add("--grace", grace_seconds, "Seconds between SIGTERM and SIGKILL");
  flags.add("--peer-timeout", peer_timeout_seconds,
            "Seconds without a heartbeat after which a process is lost");
  flags.add("--bind", binding, "Cores: divide them among the processes, or none");
  flags.add("--gpus", gpus,
            "GPUs (all, or those of CUDA_VISIBLE_DEVICES): divide them among the processes, "
            "or none: each sees all");
  flags.add("--gpu-memory-fraction", job.gpu_memory_fraction,
            "Fraction of each GPU's memory that a process made with Brigade may use: above 0, "
            "up to 1");
  flags.add("--status-port", job.status_port,
            "Serve /healthz and /metrics (Prometheus) on 127.0.0.1; 0 takes a free port");
  flags.add("--prefix", prefix, "Before each line of output: rank, or none");
  flags.add("--show-ranks", job.output.ranks, "Show the output of these ranks only (0,2)")
      ->delimiter(',');
  flags.add("--output-dir", output_dir, "Also write each rank's output to files here");
  flags.add("--key-file", key_file,
            "The cluster's key (default: BRIGADE_CLUSTER_KEY or BRIGADE_CLUSTER_KEY_FILE; without "
            "them, on one host, one is made for the job)");
  flags.add_switch("--new-key", new_key, "Write a new cluster key to standard output and exit");
  FlagGroup servers_group(app, "Parameter servers (each task is restarted alone, on its host)");
  servers_group.add("--ps", servers, "Parameter servers, on all hosts together");
  servers_group.add("--ps-replicas", server_replicas,
                    "Processes of each parameter server: with 2, a replica, on the next host "
                    "where there are several, has every update before it is acknowledged, and "
                    "serves when the server is lost (default 1)");
  servers_group.add(
      "--workers", workers,
      "Workers, on all hosts together; without --chief the first is the chief (default 1)");
  servers_group.add_switch("--evaluator", evaluator, "Also start an evaluator");
  servers_group.add_switch("--chief", chief,
                           "Also start a chief, which then is none of the workers: one that "
                           "coordinates them, or trains");
  servers_group.add("--ps-folder", server_folder,
                    "Where servers keep their variables while the job runs (default: a temporary "
                    "folder)");
  FlagGroup several(app, "Several hosts (the same command on each, with its own number)");
  several.add("--nnodes", job.hosts.count, "Hosts");
  several.add("--node-rank,--node_rank", host, "Which host this is: 0, 1, ...");
  several.add("--rendezvous,--rdzv-endpoint,--rdzv_endpoint", job.hosts.rendezvous,
              "HOST:PORT where the launcher of host 0 listens for the others");
  several.add("--start-timeout", start_timeout_seconds,
              "Seconds until all launchers must have joined");
  flags.add_switch("--json", json, "Write one JSON object about the job, after its output");
}

launch::JobOptions LaunchFlags::job_options(std::vector<std::string> program) const {
  check_choice("value of --bind", binding, {"divide", "none"});
  check_choice("value of --gpus", gpus, {"divide", "none"});
  check_choice("value of --prefix", prefix, {"rank", "none"});
  launch::JobOptions options = job;
  options.command = std::move(program);
  if (!per_rank.empty()) options.arguments_by_rank = launch::read_argument_lines(per_rank);
  options.processes = number_of_processes(processes, options.arguments_by_rank.size());
  options.roles = roles_of(*this);
  check_hosts(*this);
  options.hosts.index = host.value_or(0);
  if (options.roles)
    options.processes = launch::num_processes_on(*options.roles, options.hosts.index);
  options.hosts.start_timeout = to_milliseconds("--start-timeout", start_timeout_seconds);
  if (independent) options.coupling = launch::Coupling::kIndependent;
  options.elastic = elastic_range(elastic);
  options.grace = to_milliseconds("--grace", grace_seconds, ZeroSeconds::kAllowed);
  options.peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds);
  if (binding == "none") options.binding = launch::CoreBinding::kNone;
  if (gpus == "divide") options.gpus = visible_gpus();
  if (prefix == "none") options.output.prefix = launch::LinePrefix::kNone;
  options.output.directory = output_dir;
  options.key = key_file.empty() ? cluster::ClusterKey::from_environment()
                                 : cluster::ClusterKey::read(key_file);
  return options;
}

/// Runs the job and ends its output. Returns the exit code.
int run_with_output(const launch::JobOptions& options, bool json) {
  launch::StandardOutput output;
  launch::JobResult result;
  try {
    result = set_up([&] { return launch::run_job(options, output); });
  } catch (...) {
    output.finish(kShortPatience, std::chrono::steady_clock::now() + kShortPatience);
    throw;
  }
  if (json) {
    output.write(launch::Stream::kOutput,
                 as_json(result, output.dropped_lines())
                         .dump(-1, ' ', false, Json::error_handler_t::replace) +
                     "\n");
  }
  const auto deadline = result.was_stopped ? std::chrono::steady_clock::now() +
                                                 std::max(options.grace, kShortPatience)
                                           : std::chrono::steady_clock::time_point::max();
  output.finish(result.was_stopped ? kShortPatience : kPatience, deadline);
  const auto error = output.error();
  if (!error) return result.exit_code;
  report_error(
      Error(ErrorCode::kUnavailable, base::str_cat("standard output cannot be written: ", *error)));
  return result.exit_code == kDone ? kFailed : result.exit_code;
}

/// The arguments up to "--" are ours, the rest is the program.
std::vector<std::string> split_off_program(std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes == arguments.end()) return {};
  std::vector<std::string> program(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return program;
}

}  // namespace

int run_launch(std::vector<std::string> arguments) {
  CLI::App app(
      base::str_cat(kLaunchDescription, ":\n  brigade launch [FLAGS] -- PROGRAM [ARGUMENT...]\n"),
      "brigade launch");
  LaunchFlags flags;
  flags.add_to(app);
  app.footer(kLaunchExamples);
  std::vector<std::string> program = split_off_program(arguments);
  if (const auto code = parse_arguments(app, std::move(arguments))) return *code;
  if (flags.new_key) {
    std::cout << cluster::ClusterKey::generate().to_hex() << "\n";
    return kDone;
  }
  if (program.empty())
    throw UsageError("no program is given. Put it after --: brigade launch --nproc 2 -- PROGRAM");
  const launch::JobOptions options = set_up([&] { return flags.job_options(program); });
  return run_with_output(options, flags.json);
}

}  // namespace brigade::command
