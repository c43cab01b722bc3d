// The tutorial on distributed training, complete: a parameter server and two workers, which are
// this program in three shells.
//
//   example_parameter_server --job_name=ps --task_index=0
//   example_parameter_server --job_name=worker --task_index=0
//   example_parameter_server --job_name=worker --task_index=1
//
// or all of them from one, by the launcher, whose TF_CONFIG says which task a process is:
//
//   brigade launch --ps 1 --workers 2 -- example_parameter_server --train_dir=/tmp/train
//
// Further flags: --ps_hosts and --worker_hosts (addresses with commas between them), --data_dir,
// --train_dir (the chief saves there and continues from it), --steps (of all workers together) or
// --epochs (of each worker's batches), --mode=sync (the gradients of all workers make one update),
// --auto_shard=off (each worker trains on all of the data, as in the tutorial).
#include <brigade/brigade.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace bg = brigade;

namespace {

/// The addresses of all tasks, and which of them this process is.
bg::cluster::ClusterConfig cluster_of(const bg::Flags& flags) {
  if (flags.at("job_name").empty()) return bg::cluster::resolve_cluster();  // TF_CONFIG
  return bg::cluster::resolve_cluster(
      bg::cluster::process_environment(),
      {.cluster = "ps=" + flags.at("ps_hosts") + ";worker=" + flags.at("worker_hosts"),
       .task = flags.at("job_name") + ":" + flags.at("task_index")});
}

bg::ParameterServerOptions strategy_options(const bg::Flags& flags) {
  const std::string mode = flags.at("mode");
  bg::check_argument(mode == "async" || mode == "sync", "--mode is async or sync");
  return {.mode = mode == "sync" ? bg::UpdateMode::kSync : bg::UpdateMode::kAsync};
}

/// Images and labels, until --epochs or else --steps end the training.
bg::data::Dataset<bg::LabeledBatch> training_dataset(const bg::Flags& flags) {
  const auto examples = bg::fashion_mnist(flags.at("data_dir"));
  const std::int64_t epochs = std::stoll(flags.at("epochs"));
  return (epochs > 0 ? examples.repeat(epochs) : examples.repeat()).shuffle(10'000).batch(128);
}

std::vector<bg::train::HookPtr> hooks_of(const bg::Flags& flags) {
  if (std::stoll(flags.at("epochs")) > 0) return {};
  return {bg::StopAtStepHook{.last_step = std::stoll(flags.at("steps"))}};
}

/// It doesn't even know about the model.
void start_parameter_server(const bg::cluster::ClusterConfig& config) {
  bg::Server server(config.cluster, config.task.job, config.task.index);
  std::cout << "Listening at " << server.target() << std::endl;
  server.join();  // returns when the training has ended
}

void start_worker(const bg::cluster::ClusterConfig& config, const bg::Flags& flags) {
  bg::ParameterServerStrategy strategy(config, strategy_options(flags));
  const bg::InputOptions input{.auto_shard =
                                   bg::distribute::parse_auto_shard_policy(flags.at("auto_shard"))};
  auto batches = strategy.distribute(training_dataset(flags), input).iterator();
  const auto model = strategy.create(  // in example_in_graph_replication it is written out
      [](const at::Tensor& images) { return bg::models::mnist_cnn(images); },
      at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  bg::MonitoredTrainingSession session(
      strategy, {.checkpoint_dir = flags.at("train_dir"), .hooks = hooks_of(flags)});
  std::optional<double> first;
  double last = 0;
  while (!session.should_stop()) {
    const auto values = session.run(batches, [&](const bg::LabeledBatch& inputs) {
      const at::Tensor loss =
          bg::losses::sparse_softmax_cross_entropy(model(inputs.features), inputs.labels);
      return adam.minimize(loss);
    });
    if (!values) break;
    last = values->number("loss");
    if (!first) first = last;
  }
  const std::int64_t step = session.state().global_step();
  session.close();
  std::cout << "Worker " << config.task.index << ": step " << step << ", loss " << first.value_or(0)
            << " to " << last << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const bg::Flags flags = bg::parse_flags(argc, argv,
                                            {{"job_name", ""},
                                             {"task_index", "0"},
                                             {"ps_hosts", "localhost:2222"},
                                             {"worker_hosts", "localhost:2223,localhost:2224"},
                                             {"data_dir", bg::kFashionMnistDirectory},
                                             {"train_dir", ""},
                                             {"steps", "200"},
                                             {"epochs", "0"},
                                             {"mode", "async"},
                                             {"auto_shard", "auto"}});
    const bg::cluster::ClusterConfig config = cluster_of(flags);
    if (bg::is_server_task(config.task)) {
      start_parameter_server(config);
    } else {
      start_worker(config, flags);
    }
    return 0;
  });
}
