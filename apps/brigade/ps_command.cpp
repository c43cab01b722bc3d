#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/parameter_server.h"
#include "brigade/cluster/resolver.h"

namespace brigade::command {
namespace {

constexpr const char* kPsExamples = R"(Examples:
  brigade ps --cluster 'ps=a:2222;worker=b:2222,c:2222' --task ps:0 --folder /var/tmp/ps --key-file cluster.key
      the parameter server of two workers, which run
  brigade train --strategy parameter_server --cluster 'ps=a:2222;worker=b:2222,c:2222' --task worker:0 --key-file cluster.key
      and the same with worker:1
  TF_CONFIG='{"cluster": {"ps": ["localhost:2222"], "worker": ["localhost:2223"]}, "task": {"type": "ps", "index": 0}}' brigade ps
      the same as TensorFlow's tutorials describe it
  brigade ps --cluster 'ps=a:2222;ps_replica=d:2222;worker=b:2222,c:2222' --task ps_replica:0 --folder /var/tmp/ps --key-file cluster.key
      the second process of a server that has one: it has the same variables, and serves when the other one is lost
  brigade launch --ps 2 --workers 4 -- brigade train --strategy parameter_server --model-dir /tmp/run
      all tasks on this machine; no `brigade ps` is needed

The server ends when the training has ended. If it dies, the same command continues with every update that it
acknowledged. Exit codes: 0 the training has ended, 1 failed, 2 wrong usage, 130 SIGINT, 75 SIGTERM or SIGHUP: the
variables are in the folder.)";

class PsCommand final : public Command {
 public:
  explicit PsCommand(CLI::App& parent)
      : Command(parent, "ps", "Serve variables to the workers of a training") {
    FlagGroup group(parser_, "Cluster");
    group.add("--cluster", cluster_.cluster,
              "The cluster's tasks: 'ps=a:1;worker=b:1,c:1' or a JSON file (default: TF_CONFIG)");
    group.add("--task", cluster_.task, "Which task this process is: ps:0, or ps_replica:0");
    group.add("--key-file", key_file_,
              "The cluster's key; without it nothing is served beyond this machine");
    FlagGroup state(parser_, "State");
    state.add("--folder", folder_,
              "Where the variables and the log of updates are kept, for this server after a "
              "restart. Without it they are lost if it dies");
    state.add_switch("--overwrite", overwrite_,
                     "Remove variables that are in the folder: a new training begins");
    FlagGroup load(parser_, "Load");
    load.add("--metrics-port", metrics_port_,
             "Serve /metrics (Prometheus) on 127.0.0.1; 0 takes a free port");
    output_.add_to(parser_);
    parser_.footer(kPsExamples);
  }

  int run() override {
    return run_parameter_server(set_up([&] {
      return ParameterServerRun{
          .cluster = cluster::resolve_cluster(cluster::process_environment(), cluster_),
          .folder = folder_,
          .key = key_file_.empty() ? cluster::ClusterKey::from_environment()
                                   : cluster::ClusterKey::read(key_file_),
          .earlier = overwrite_ ? EarlierState::kRemove : EarlierState::kRestore,
          .metrics_port = metrics_port_,
          .output = output_};
    }));
  }

 private:
  cluster::ResolveOptions cluster_;
  std::string key_file_;
  std::string folder_;
  bool overwrite_ = false;
  std::optional<int> metrics_port_;
  OutputFlag output_;
};

}  // namespace

std::unique_ptr<Command> make_ps_command(CLI::App& parent) {
  return std::make_unique<PsCommand>(parent);
}

}  // namespace brigade::command
