#include "apps/brigade/launch_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/empty_values.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/launch_flags.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
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
  brigade launch --nnodes 2 --node-rank 0 --rendezvous a:29400 --key-file cluster.key --nproc 4 -- ./my_program
      on host a, and the same with --node-rank 1 on host b: one job of eight processes
  (umask 077; brigade launch --new-key > cluster.key)
      the key that the members of a cluster on several machines share

Each process finds RANK, WORLD_SIZE, LOCAL_RANK and the rendezvous address in its environment. In the program's
arguments, {rank} and {world_size} are replaced by the numbers. The exit code is 0 if all succeeded, else that of
the process that failed first (128 plus the number if a signal killed it). SIGINT and SIGTERM are sent to all
processes (130, 75); a second one kills them.)";

// At the end, for a reader that does not read; shorter if the launcher was asked to stop.
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kShortPatience = std::chrono::seconds(1);

Json as_json(const launch::JobResult& result, std::int64_t dropped_lines) {
  Json failures = Json::array();
  for (const launch::RankFailure& failure : result.failures) {
    std::vector<std::string> others;
    for (const launch::OtherRank& other : failure.others) others.push_back(other.text);
    failures.push_back({{"rank", failure.rank < 0 ? Json() : Json(failure.rank)},
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
  check_no_empty_values(arguments);
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
    throw UsageError("no program is given. Put it after --: brigade launch --nproc 2 -- PROGRAM");
  const launch::JobOptions options = set_up([&] { return flags.job_options(program); });
  return run_with_output(options, flags.json);
}

}  // namespace brigade::command
