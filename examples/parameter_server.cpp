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

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bg = brigade;
namespace layers = bg::layers::v1;  // TensorFlow 1's tf.layers

namespace {

using Flags = std::map<std::string, std::string>;

/// --name=value, for each name that has a default.
Flags parse_flags(int argc, char** argv, Flags flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    const std::string name = text.starts_with("--") ? text.substr(2, equals - 2) : "";
    if (equals == std::string::npos || !flags.contains(name))
      throw bg::Error(bg::ErrorCode::kInvalidArgument, "Flags are --name=value, and not " + text);
    flags[name] = text.substr(equals + 1);
  }
  return flags;
}

/// The addresses of all tasks, and which of them this process is.
bg::cluster::ClusterConfig cluster_of(const Flags& flags) {
  if (flags.at("job_name").empty()) return bg::cluster::resolve_cluster();  // TF_CONFIG
  return bg::cluster::resolve_cluster(
      bg::cluster::process_environment(),
      {.cluster = "ps=" + flags.at("ps_hosts") + ";worker=" + flags.at("worker_hosts"),
       .task = flags.at("job_name") + ":" + flags.at("task_index")});
}

bool is_one_of(const std::string& value, const std::vector<std::string>& values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void check(const Flags& flags) {
  if (!is_one_of(flags.at("mode"), {"async", "sync"}) ||
      !is_one_of(flags.at("auto_shard"), {"auto", "off"}))
    throw bg::Error(bg::ErrorCode::kInvalidArgument,
                    "--mode is async or sync, and --auto_shard is auto or off");
}

bg::ParameterServerOptions strategy_options(const Flags& flags) {
  if (flags.at("mode") == "sync") return {.mode = bg::UpdateMode::kSync};
  return {};
}

bg::InputOptions input_options(const Flags& flags) {
  if (flags.at("auto_shard") == "off") return {.auto_shard = bg::AutoShardPolicy::kOff};
  return {};
}

/// Images and labels, until --epochs or else --steps end the training.
bg::data::Dataset<bg::LabeledBatch> training_dataset(const Flags& flags) {
  const auto examples = bg::fashion_mnist(flags.at("data_dir"));
  const std::int64_t epochs = std::stoll(flags.at("epochs"));
  return (epochs > 0 ? examples.repeat(epochs) : examples.repeat()).shuffle(10'000).batch(128);
}

std::vector<bg::train::HookPtr> hooks_of(const Flags& flags) {
  if (std::stoll(flags.at("epochs")) > 0) return {};
  return {bg::StopAtStepHook{.last_step = std::stoll(flags.at("steps"))}};
}

/// A simple model to classify 28x28 gray images: the logits [N, 10].
at::Tensor core_model(const at::Tensor& input_img) {
  const auto same = bg::layers::Padding::kSame;
  const auto relu = bg::layers::relu;
  at::Tensor net = layers::conv2d(input_img, 32, {5, 5},
                                  {.padding = same, .activation = relu, .name = "conv_1"});
  net = layers::max_pooling2d(net, {2, 2}, {2, 2});
  net = layers::conv2d(net, 64, {5, 5}, {.padding = same, .activation = relu, .name = "conv_2"});
  net = layers::max_pooling2d(net, {2, 2}, {2, 2});
  net = layers::dense(net.reshape({-1, 64 * 7 * 7}), 1024, {.activation = relu, .name = "dense_1"});
  return layers::dense(net, 10, {.name = "dense_2"});
}

/// It doesn't even know about the model.
void start_parameter_server(const bg::cluster::ClusterConfig& config) {
  bg::Server server(config.cluster, config.task.job, config.task.index);
  std::cout << "Listening at " << server.target() << std::endl;
  server.join();  // returns when the training has ended
}

void start_worker(const bg::cluster::ClusterConfig& config, const Flags& flags) {
  bg::ParameterServerStrategy strategy(config, strategy_options(flags));
  auto batches = strategy.distribute(training_dataset(flags), input_options(flags)).iterator();
  const auto model = strategy.create(core_model, at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  bg::MonitoredTrainingSession session(
      strategy, {.checkpoint_dir = flags.at("train_dir"), .hooks = hooks_of(flags)});
  std::optional<double> first;
  double last = 0;
  while (!session.should_stop()) {
    const auto values = session.run(batches, [&](const bg::LabeledBatch& inputs) {
      const at::Tensor loss =
          bg::losses::sparse_softmax_cross_entropy(model(inputs.features), inputs.labels);
      adam.minimize(loss);
      return loss.detach();
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
    const Flags flags = parse_flags(argc, argv,
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
    check(flags);
    const bg::cluster::ClusterConfig config = cluster_of(flags);
    if (bg::is_server_task(config.task)) {
      start_parameter_server(config);
    } else {
      start_worker(config, flags);
    }
    return 0;
  });
}
