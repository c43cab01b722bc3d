#include "apps/brigade/launch_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "apps/brigade/exit_code.h"
#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/command_line.h"
#include "brigade/launch/job.h"

namespace brigade::command {
namespace {

using Json = nlohmann::json;

constexpr const char* kExamples = R"(Examples:
  brigade launch --nproc 2 -- brigade train --strategy multi_worker_mirrored --model-dir /tmp/run
      one model, trained by two processes of this machine
  brigade launch --nproc 4 --max-restarts 3 -- ./my_program --flag
      any program; after a failure all are started again, up to three times
  brigade launch --nproc 2 --output-dir /tmp/logs --show-ranks 0 -- python3 train.py
      every process's output in files, that of rank 0 shown too
  brigade launch --nproc 4 --elastic 2:4 --status-port 9400 -- ./my_program
      goes on with fewer when one is killed; Prometheus may ask http://127.0.0.1:9400/metrics
  brigade launch --independent --per-rank rates.txt -- brigade train --model-dir /tmp/sweep/{rank}
      models that have nothing to do with each other: a line of rates.txt, such as
      "--learning-rate 0.1", is the additional arguments of one of them
  (umask 077; brigade launch --new-key > cluster.key)
      the secret that members of a cluster on several machines share

Each process finds RANK, WORLD_SIZE, LOCAL_RANK and where to meet in its environment; in the program's
arguments {rank} and {world_size} stand for the numbers. The exit code is 0 when all ended well, else that of
the process that failed first (128 and the number where a signal killed it). SIGINT and SIGTERM go to all
processes (130, 75); a second one kills them.)";

struct LaunchFlags {
  std::optional<int> processes;
  int max_restarts = 0;
  std::string elastic;
  double grace_seconds = 10.0;
  double peer_timeout_seconds = 8.0;
  std::string binding = "divide";
  std::string gpus = "divide";
  std::string per_rank;
  bool independent = false;
  std::optional<int> status_port;
  std::string prefix = "rank";
  std::vector<int> shown_ranks;
  std::string output_dir;
  std::string key_file;
  bool new_key = false;
  bool json = false;
};

void add_flags(CLI::App& app, LaunchFlags& flags) {
  app.add_option("--nproc", flags.processes,
                 "Processes on this machine (default: 1, or the lines of --per-rank)");
  app.add_option("--per-rank", flags.per_rank,
                 "A file with a line of additional arguments for each process");
  app.add_flag("--independent", flags.independent,
               "The processes do not train together: each is alone, and none stops for another");
  app.add_option("--max-restarts", flags.max_restarts, "Start again after a failure, so many times")
      ->capture_default_str();
  app.add_option("--elastic", flags.elastic,
                 "MIN:MAX: a lost process is done without while MIN are left; SIGUSR1 to the "
                 "launcher adds one, up to MAX");
  app.add_option("--grace", flags.grace_seconds, "Seconds between SIGTERM and SIGKILL")
      ->capture_default_str();
  app.add_option("--peer-timeout", flags.peer_timeout_seconds,
                 "Seconds after which a process that is not heard of is lost")
      ->capture_default_str();
  app.add_option("--bind", flags.binding, "Cores: divide them among the processes, or none")
      ->capture_default_str();
  app.add_option("--gpus", flags.gpus,
                 "GPUs (all, or those of CUDA_VISIBLE_DEVICES): divide them among the processes, "
                 "or none: each sees all")
      ->capture_default_str();
  app.add_option("--status-port", flags.status_port,
                 "Answer /healthz and /metrics (Prometheus) on 127.0.0.1; 0 takes a free port");
  app.add_option("--prefix", flags.prefix, "Before each line of output: rank, or none")
      ->capture_default_str();
  app.add_option("--show-ranks", flags.shown_ranks, "Show the output of these ranks only (0,2)")
      ->delimiter(',');
  app.add_option("--output-dir", flags.output_dir, "Also write each rank's output to files here");
  app.add_option("--key-file", flags.key_file,
                 "The cluster's key (default: BRIGADE_CLUSTER_KEY or BRIGADE_CLUSTER_KEY_FILE)");
  app.add_flag("--new-key", flags.new_key, "Write a new cluster key to standard output, and end");
  app.add_flag("--json", flags.json, "Write one JSON object about the job, behind its output");
}

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

std::chrono::milliseconds milliseconds(const char* flag, double seconds) {
  if (!(seconds >= 0.0 && seconds <= 1e6))
    throw UsageError(base::str_cat(flag, " is ", seconds, "; give seconds, 0 to 1000000"));
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
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

int number_of_processes(const LaunchFlags& flags, std::size_t lines) {
  if (flags.processes) return *flags.processes;
  return lines == 0 ? 1 : static_cast<int>(lines);
}

launch::JobOptions job_options(const LaunchFlags& flags, std::vector<std::string> command) {
  check_choice("value of --bind", flags.binding, {"divide", "none"});
  check_choice("value of --gpus", flags.gpus, {"divide", "none"});
  check_choice("value of --prefix", flags.prefix, {"rank", "none"});
  std::vector<std::vector<std::string>> lines;
  if (!flags.per_rank.empty()) lines = launch::read_argument_lines(flags.per_rank);
  return {
      .command = std::move(command),
      .processes = number_of_processes(flags, lines.size()),
      .arguments_by_rank = lines,
      .coupling = flags.independent ? launch::Coupling::kIndependent : launch::Coupling::kTogether,
      .max_restarts = flags.max_restarts,
      .elastic = elastic_range(flags.elastic),
      .grace = milliseconds("--grace", flags.grace_seconds),
      .peer_timeout = milliseconds("--peer-timeout", flags.peer_timeout_seconds),
      .binding =
          flags.binding == "divide" ? launch::CoreBinding::kDivide : launch::CoreBinding::kNone,
      .gpus = flags.gpus == "divide" ? visible_gpus() : std::nullopt,
      .output = {.prefix =
                     flags.prefix == "rank" ? launch::LinePrefix::kRank : launch::LinePrefix::kNone,
                 .ranks = flags.shown_ranks,
                 .directory = flags.output_dir},
      .key = flags.key_file.empty() ? cluster::ClusterKey::from_environment()
                                    : cluster::ClusterKey::read(flags.key_file),
      .status_port = flags.status_port};
}

Json as_json(const launch::JobResult& result) {
  Json failures = Json::array();
  for (const launch::Failure& failure : result.failures) {
    failures.push_back({{"rank", failure.rank},
                        {"reason", failure.reason},
                        {"generation", failure.generation},
                        {"seconds", static_cast<double>(failure.after.count()) / 1e3},
                        {"last_lines", failure.last_lines},
                        {"others", failure.others}});
  }
  return {{"exit_code", result.exit_code},
          {"processes", result.processes},
          {"restarts", result.restarts},
          {"membership_changes", result.membership_changes},
          {"failures", failures}};
}

/// The words up to "--" are ours, the rest is the program.
std::vector<std::string> cut_off_program(std::vector<std::string>& arguments) {
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
  add_flags(app, flags);
  app.footer(kExamples);
  std::vector<std::string> program = cut_off_program(arguments);
  try {
    std::ranges::reverse(arguments);  // as the parser takes them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw UsageError(base::str_cat(error.what(), " See: brigade launch --help"));
  }
  if (flags.new_key) {
    std::cout << cluster::ClusterKey::generate().to_hex() << "\n";
    return kDone;
  }
  if (program.empty())
    throw UsageError("no program is given. Put it behind --: brigade launch --nproc 2 -- PROGRAM");
  const launch::JobOptions options = set_up([&] { return job_options(flags, program); });
  const launch::JobResult result =
      set_up([&] { return launch::run_job(options, std::cout, std::cerr); });
  if (flags.json) std::cout << as_json(result).dump() << "\n";
  return result.exit_code;
}

}  // namespace brigade::command
