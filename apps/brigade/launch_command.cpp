#include <CLI/CLI.hpp>
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
#include "apps/brigade/flag_values.h"
#include "apps/brigade/launch_flags.h"
#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/command_line.h"
#include "brigade/launch/job.h"
#include "brigade/launch/standard_output.h"

namespace brigade::command {
namespace {

using Json = nlohmann::json;

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
    throw UsageError("--elastic is ", text, "; give MIN:MAX, such as 2:4");
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
      throw UsageError(flag,
                       " is for a job with parameter servers (--ps); without them give --nproc");
    }
    return std::nullopt;
  }
  for (const auto& [flag, is_given] : {std::pair("--nproc", flags.processes.has_value()),
                                       std::pair("--per-rank", !flags.per_rank.empty()),
                                       std::pair("--independent", flags.independent),
                                       std::pair("--elastic", !flags.elastic.empty())}) {
    if (!is_given) continue;
    throw UsageError(flag,
                     " and --ps exclude each other; with parameter servers, --workers says how "
                     "many processes train");
  }
  check_at_least("--ps", *flags.servers, 1);
  check_at_least("--workers", flags.workers.value_or(1), 1);
  const int replicas = flags.server_replicas.value_or(1);
  if (replicas != 1 && replicas != 2)
    throw UsageError("--ps-replicas is ", replicas, "; give 1, or 2 for servers with a replica");
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
    throw UsageError("--nnodes is ", hosts.count,
                     ", but --node-rank does not say which host this is");
  }
  if (hosts.count > 1 && hosts.rendezvous.empty()) {
    throw UsageError(
        "several hosts need --rendezvous HOST:PORT, where the launcher of host 0 listens for the "
        "others");
  }
}

/// The options for a job of this program. Throws UsageError, and the errors of reading files.
launch::JobOptions job_options(const LaunchFlags& flags, std::vector<std::string> program) {
  check_choice("value of --bind", flags.binding, {"divide", "none"});
  check_choice("value of --gpus", flags.gpus, {"divide", "none"});
  check_choice("value of --prefix", flags.prefix, {"rank", "none"});
  check_at_least("--nproc", flags.processes.value_or(1), 1);
  launch::JobOptions options = flags.job;
  options.command = std::move(program);
  if (!flags.per_rank.empty())
    options.arguments_by_rank = launch::read_argument_lines(flags.per_rank);
  options.processes = number_of_processes(flags.processes, options.arguments_by_rank.size());
  options.roles = roles_of(flags);
  check_hosts(flags);
  options.hosts.index = flags.host.value_or(0);
  if (options.roles)
    options.processes = launch::num_processes_on(*options.roles, options.hosts.index);
  options.hosts.start_timeout = to_milliseconds("--start-timeout", flags.start_timeout_seconds);
  if (flags.independent) options.coupling = launch::Coupling::kIndependent;
  options.elastic = elastic_range(flags.elastic);
  options.grace = to_milliseconds("--grace", flags.grace_seconds, ZeroSeconds::kAllowed);
  options.peer_timeout = to_milliseconds("--peer-timeout", flags.peer_timeout_seconds);
  if (flags.binding == "none") options.binding = launch::CoreBinding::kNone;
  if (flags.gpus == "divide") options.gpus = visible_gpus();
  if (flags.prefix == "none") options.output.prefix = launch::LinePrefix::kNone;
  options.output.directory = flags.output_dir;
  options.key = flags.key_file.empty() ? cluster::ClusterKey::from_environment()
                                       : cluster::ClusterKey::read(flags.key_file);
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
  report_error(Error(ErrorCode::kUnavailable, "standard output cannot be written: ", *error));
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
  std::vector<std::string> program = split_off_program(arguments);
  if (const auto code = parse_arguments(app, std::move(arguments))) return *code;
  if (flags.new_key) {
    std::cout << cluster::ClusterKey::generate().to_hex() << "\n";
    return kDone;
  }
  if (program.empty())
    throw UsageError("no program is given. Put it after --: brigade launch --nproc 2 -- PROGRAM");
  const launch::JobOptions options = set_up([&] { return job_options(flags, program); });
  return run_with_output(options, flags.json);
}

}  // namespace brigade::command
