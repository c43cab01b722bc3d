// Synchronous training with parameter servers: each update is the mean of the gradients of two
// workers, whichever two of three come first. This program is every task of the cluster:
//
//   brigade launch --ps 1 --workers 3 -- example_sync_replicas [STEPS]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <optional>

namespace bg = brigade;

namespace {

void start_worker(const bg::cluster::ClusterConfig& config, std::int64_t steps) {
  const bg::SyncReplicasOptimizer optimizer(bg::optim::Adam{.learning_rate = 1e-3},
                                            {.replicas_to_aggregate = 2, .total_num_replicas = 3});
  bg::ParameterServerStrategy strategy(config, optimizer.strategy_options(config.cluster));
  auto batches =
      strategy.distribute(bg::fashion_mnist().repeat().shuffle(10'000).batch(32)).iterator();
  const auto model = strategy.create<bg::models::Mlp>();
  const auto sync = strategy.optimizer(model, optimizer);
  bg::MonitoredTrainingSession session(strategy,
                                       {.hooks = {bg::StopAtStepHook{.last_step = steps}}});
  std::optional<double> first;
  double last = 0;
  while (!session.should_stop()) {
    const auto values = session.run(batches, [&](const bg::LabeledBatch& batch) {
      const at::Tensor loss =
          bg::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels);
      return sync.minimize(
          loss);  // returns when two gradients made the update, perhaps not this one
    });
    if (!values) break;
    last = values->number("loss");
    if (!first) first = last;
  }
  const std::int64_t global_step = session.state().global_step();
  session.close();
  std::cout << "Worker " << config.task.index << ": step " << global_step << ", loss "
            << first.value_or(0) << " to " << last << std::endl;
  bg::check_state(global_step == steps, "All workers stop after the same update.");
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
