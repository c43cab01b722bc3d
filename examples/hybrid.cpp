// Both kinds of training at once, for several machines with several devices each: the devices of a
// machine train synchronously, and the machines asynchronously, by parameter servers. Two servers
// share the variables, and so the load on their network.
//
//   brigade launch --ps 2 --workers 2 -- example_hybrid [STEPS]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <optional>

namespace bg = brigade;

namespace {

void start_worker(const bg::cluster::ClusterConfig& config, std::int64_t steps) {
  // The devices of this machine; without `devices`, every GPU.
  bg::ParameterServerStrategy strategy(
      config, {.devices = {"/cpu:0", "/cpu:1"}, .allow_oversubscription = true});
  // Batches for the devices of one machine: 128 on each.
  const auto dataset =
      bg::fashion_mnist().repeat().shuffle(10'000).batch(128 * strategy.num_replicas_in_sync());
  auto batches = strategy.distribute(dataset).iterator();
  const auto model = strategy.create<bg::models::Mlp>();
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  bg::MonitoredTrainingSession session(strategy,
                                       {.hooks = {bg::StopAtStepHook{.last_step = steps}}});
  std::optional<double> first;
  double last = 0;
  while (!session.should_stop()) {
    const auto values = session.run(batches, [&](const bg::LabeledBatch& local) {
      const at::Tensor loss =
          bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
      return adam.minimize(loss);  // adds the gradients of this machine's devices, then sends them
    });
    if (!values) break;
    last = values->number("loss");
    if (!first) first = last;
  }
  const std::int64_t global_step = session.state().global_step();
  session.close();
  std::cout << "Worker " << config.task.index << ": " << strategy.num_replicas_in_sync()
            << " devices, " << strategy.servers().count << " servers, step " << global_step
            << ", loss " << first.value_or(0) << " to " << last << std::endl;
  // A worker ends with the first step after which it sees the last one.
  bg::check_state(global_step >= steps, "The training ended too early.");
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1000;
    const auto config = bg::cluster::resolve_cluster();  // TF_CONFIG
    if (bg::is_server_task(config.task)) {
      bg::Server(config.cluster, config.task.job, config.task.index).join();
    } else {
      start_worker(config, steps);
    }
  });
}
