// The tutorial on distributed training, complete: a parameter server and two workers, which are
// this program in three shells.
//
//   example_parameter_server --job_name=ps --task_index=0
//   example_parameter_server --job_name=worker --task_index=0
//   example_parameter_server --job_name=worker --task_index=1
//
// Further flags: --ps_hosts and --worker_hosts (addresses with commas between them), --data_dir,
// --train_dir (the chief saves there and continues from it), --steps (of both workers together).
#include <brigade/brigade.h>

#include <iostream>
#include <map>
#include <optional>
#include <sstream>
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

std::vector<std::string> addresses(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string each; std::getline(stream, each, ',');) all.push_back(each);
  return all;
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
void start_parameter_server(const bg::cluster::ClusterSpec& cluster, int task_index) {
  bg::Server server(cluster, "ps", task_index);
  std::cout << "Listening at " << server.target() << std::endl;
  server.join();  // returns when the training has ended
}

void start_worker(const bg::cluster::ClusterSpec& cluster, int task_index, const Flags& flags) {
  bg::ParameterServerStrategy strategy(cluster, "worker", task_index);
  const auto dataset = bg::fashion_mnist(flags.at("data_dir")).repeat().shuffle(10'000).batch(128);
  auto batches = strategy.distribute(dataset).iterator();  // this worker's batches
  const auto model = strategy.create(core_model, at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  bg::MonitoredTrainingSession session(
      strategy, {.checkpoint_dir = flags.at("train_dir"),
                 .hooks = {bg::StopAtStepHook{.last_step = std::stoll(flags.at("steps"))}}});
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
  std::cout << "Worker " << task_index << ": step " << step << ", loss " << first.value_or(0)
            << " to " << last << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const Flags flags = parse_flags(argc, argv,
                                    {{"job_name", "worker"},
                                     {"task_index", "0"},
                                     {"ps_hosts", "localhost:2222"},
                                     {"worker_hosts", "localhost:2223,localhost:2224"},
                                     {"data_dir", bg::kFashionMnistDirectory},
                                     {"train_dir", ""},
                                     {"steps", "200"}});
    const bg::cluster::ClusterSpec cluster(
        {{"ps", addresses(flags.at("ps_hosts"))}, {"worker", addresses(flags.at("worker_hosts"))}});
    const int task_index = std::stoi(flags.at("task_index"));
    if (flags.at("job_name") == "ps") {
      start_parameter_server(cluster, task_index);
    } else {
      start_worker(cluster, task_index, flags);
    }
    return 0;
  });
}
