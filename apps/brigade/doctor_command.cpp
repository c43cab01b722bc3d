#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/machine_checks.h"
#include "apps/brigade/report.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/cluster/address_check.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/resolver.h"
#include "brigade/device/device.h"
#include "brigade/ps/server.h"

namespace brigade::command {
namespace {

constexpr const char* kDoctorExamples = R"(Examples:
  brigade doctor
      which cluster the environment describes, whether there is a key, and what this machine and build have
  brigade doctor --cluster 'chief=a:2222;worker=b:2222,c:2222' --task worker:0
      the same, and tries every address: which ones listen, which host is unknown or silent
  brigade doctor --cluster 'ps=a:2222;worker=b:2222,c:2222' --task worker:1
      a cluster with parameter servers: whether their addresses are ready; nobody connects to workers
  brigade doctor --cluster cluster.json --json
      with the cluster from a file in the format of TF_CONFIG

Exit codes: 0 nothing is wrong, 1 something is, 2 the flags or the cluster in them cannot be read.)";

struct Flags {
  cluster::ResolveOptions cluster;
  double timeout_seconds = 5;
};

// What was found so far: as JSON, as text, and the problems.
struct Findings {
  Json json = Json::object();
  std::string text = {};
  std::vector<std::string> problems = {};

  void line(const std::string& name, const std::string& value) {
    constexpr std::size_t kWidth = 14;
    text += name + std::string(kWidth - std::min(kWidth - 1, name.size()), ' ') + value + "\n";
  }
};

constexpr const char* kServers = "ps";

/// Whether the tasks connect to parameter servers, and not to one another.
bool has_parameter_servers(const cluster::ClusterSpec& cluster) {
  return cluster.num_tasks(kServers) > 0;
}

std::string role_of(const cluster::ClusterConfig& config) {
  if (ps::is_server_task(config.task)) return "serves";
  return config.is_evaluator() ? "evaluates" : "trains";
}

Json json_of(const cluster::ClusterConfig& config) {
  const int servers = config.cluster.num_tasks(kServers);
  return {{"source", config.source},
          {"task", to_string(config.task)},
          {"role", role_of(config)},
          {"rank", config.rank},
          {"world_size", config.world_size},
          {"parameter_servers", servers},
          {"rendezvous", servers == 0 ? config.rendezvous : ""},
          {"generation", config.generation}};
}

std::string text_of_servers(const cluster::ClusterConfig& config) {
  const int servers = config.cluster.num_tasks(kServers);
  const std::string number =
      base::str_cat("workers: ", config.world_size, ", parameter servers: ", servers);
  const std::string own = ps::is_server_task(config.task) ? "serves"
                          : config.is_evaluator()         ? "evaluates checkpoints"
                          : config.is_chief()             ? "trains, and is the chief"
                                                          : "trains";
  return base::str_cat(config.task, ", ", own, "; ", number, " (", config.source, ")");
}

std::string text_of(const cluster::ClusterConfig& config) {
  if (has_parameter_servers(config.cluster)) return text_of_servers(config);
  if (config.world_size == 1) return base::str_cat("one process alone (", config.source, ")");
  const std::string role = config.rank < 0
                               ? std::string("not part of the training")
                               : base::str_cat("rank ", config.rank, " of ", config.world_size);
  return base::str_cat(config.task, ", ", role, ", rendezvous ", config.rendezvous, " (",
                       config.source, ")");
}

// The cluster whose addresses will be tried.
cluster::ClusterSpec look_at_cluster(const Flags& flags, Findings& findings) {
  const auto environment = cluster::process_environment();
  findings.json["sources"] = cluster::cluster_sources(environment);
  // An error in the flags ends the command; one in the environment is a finding.
  cluster::DescribedCluster given;
  if (!flags.cluster.cluster.empty()) {
    given = set_up([&] { return cluster::parse_cluster(flags.cluster.cluster); });
  }
  const bool has_task = given.cluster.is_empty() || given.task || !flags.cluster.task.empty();
  if (!has_task) {
    findings.json["cluster"] = nullptr;
    findings.line("cluster", "from --cluster; give --task to say which of its tasks this is");
    return given.cluster;
  }
  try {
    const auto config = cluster::resolve_cluster(environment, flags.cluster);
    findings.json["cluster"] = json_of(config);
    findings.line("cluster", text_of(config));
    return config.cluster;
  } catch (const Error& error) {
    if (!flags.cluster.cluster.empty() || !flags.cluster.task.empty()) {
      throw UsageError(error.what());
    }
    findings.json["cluster"] = nullptr;
    findings.line("cluster", "unknown");
    findings.problems.emplace_back(error.what());
    return {};
  }
}

/// Whether tasks of this job may listen. In a cluster with parameter servers only those do, and a
/// chief that coordinates the workers.
bool is_connected_to(const cluster::ClusterSpec& cluster, const std::string& job) {
  return !has_parameter_servers(cluster) || ps::is_server_task({.job = job, .index = 0}) ||
         job == "chief";
}

void look_at_key(const cluster::ClusterSpec& cluster, Findings& findings) {
  std::string state = "none";
  try {
    if (cluster::ClusterKey::from_environment()) state = "found";
  } catch (const Error& error) {
    state = "unusable";
    findings.problems.emplace_back(error.what());
  }
  findings.json["key"] = state;
  findings.line("cluster key", state);
  if (state != "none") return;
  for (const auto& [job, tasks] : cluster.as_map()) {
    if (!is_connected_to(cluster, job)) continue;
    for (const auto& [index, address] : tasks) {
      if (cluster::is_loopback(cluster::parse_address(address).host)) continue;
      findings.problems.push_back(base::str_cat(
          address, " is beyond this machine, which needs a cluster key; make one with `brigade ",
          "launch --new-key` and name its file in BRIGADE_CLUSTER_KEY_FILE."));
      return;
    }
  }
}

Json json_of(const cluster::AddressReport& report) {
  return {{"task", to_string(report.task)},
          {"address", report.address},
          {"state", to_string(report.reachability)},
          {"port", report.port ? Json(to_string(*report.port)) : Json(nullptr)},
          {"detail", report.detail}};
}

std::string text_of(const cluster::AddressReport& report) {
  std::string text = base::str_cat(report.address, "  ", report.reachability);
  if (report.reachability == cluster::Reachability::kRefused) text += " (nothing listens yet)";
  if (report.port) text += base::str_cat(", on this host, port ", *report.port);
  if (!report.detail.empty()) text += base::str_cat(": ", report.detail);
  return text;
}

void try_addresses(const cluster::ClusterSpec& cluster, const Flags& flags, Findings& findings) {
  const auto timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_seconds * 1000));
  findings.json["addresses"] = Json::array();
  for (const auto& report : cluster::check_addresses(cluster, timeout)) {
    const bool is_used = is_connected_to(cluster, report.task.job);
    Json& json = findings.json["addresses"].emplace_back(json_of(report));
    json["used"] = is_used;
    findings.line("  " + report.task.job + ":" + std::to_string(report.task.index),
                  text_of(report) + (is_used ? "" : "; nobody connects to it"));
    if (report.is_good() || !is_used) continue;
    findings.problems.push_back(base::str_cat(report.task, ": ", text_of(report), "."));
  }
}

void look_at_machine(Findings& findings) {
  const device::Hardware hardware = device::discover_hardware();
  findings.json["usable_cores"] = hardware.topology.usable_cores();
  findings.json["gpus"] = hardware.gpu_cards;
  findings.line("cores", std::to_string(hardware.topology.usable_cores()));
  findings.line("GPUs", base::str_cat(hardware.gpu_cards));
  findings.json["machine"] = Json::array();
  for (const MachineCheck& check : check_machine(hardware.gpu_cards)) {
    findings.json["machine"].push_back({{"name", check.name},
                                        {"good", check.is_good},
                                        {"found", check.found},
                                        {"advice", check.advice}});
    findings.line(check.name,
                  base::str_cat(check.found, check.advice.empty() ? "" : "; ", check.advice));
    if (check.is_problem)
      findings.problems.push_back(
          base::str_cat(check.name, ": ", check.found, "; ", check.advice, "."));
  }
}

class DoctorCommand final : public Command {
 public:
  explicit DoctorCommand(CLI::App& parent)
      : Command(parent, "doctor", "Check the machine, a cluster, its addresses and its key") {
    FlagGroup flags(parser_);
    flags.add("--cluster", flags_.cluster.cluster,
              "job=host:port,...;job=..., or JSON in TF_CONFIG's form, or a file with it");
    flags.add("--task", flags_.cluster.task, "Which task of the cluster this process is: worker:1");
    flags.add("--timeout", flags_.timeout_seconds, "Seconds that all addresses together get");
    output_.add_to(parser_);
    parser_.footer(kDoctorExamples);
  }

  int run() override {
    constexpr double kShortest = 0.001;
    constexpr double kLongest = 3600;
    if (!(flags_.timeout_seconds >= kShortest && flags_.timeout_seconds <= kLongest)) {
      throw UsageError("--timeout is a number of seconds from 0.001 to 3600.");
    }
    Findings findings;
    const cluster::ClusterSpec cluster = look_at_cluster(flags_, findings);
    try_addresses(cluster, flags_, findings);
    look_at_key(cluster, findings);
    look_at_machine(findings);
    findings.json["problems"] = findings.problems;
    for (const std::string& problem : findings.problems) findings.line("PROBLEM", problem);
    output_.print(findings.json, findings.text);
    return findings.problems.empty() ? kDone : kFailed;
  }

 private:
  Flags flags_;
  OutputFlag output_;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command(CLI::App& parent) {
  return std::make_unique<DoctorCommand>(parent);
}

}  // namespace brigade::command
