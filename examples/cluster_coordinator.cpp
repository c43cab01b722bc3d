// A coordinator that directs workers: this program in four shells. The chief schedules steps, which
// the workers run as they become free, and evaluates the model after each epoch.
//
//   example_cluster_coordinator --task=ps:0
//   example_cluster_coordinator --task=worker:0
//   example_cluster_coordinator --task=worker:1
//   example_cluster_coordinator --task=chief
//
// A killed worker may be started again, or not. The chief saves in --train_dir, and continues from
// there. --bad_steps fail, and are scheduled first.
#include <brigade/brigade.h>

#include <iostream>

namespace bg = brigade;

namespace {

/// The model and its optimizer: the same in the chief, which creates the variables on the servers,
/// and in the workers, which have copies.
struct Trainer {
  explicit Trainer(const bg::cluster::ClusterConfig& cluster,
                   const bg::concurrency::CancelToken& cancel = {})
      : strategy(cluster, {.chief = bg::ChiefRole::kCoordinates, .cancel = cancel}),
        model(strategy.create<bg::models::Mlp>()),
        adam(strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3})) {}

  bg::ParameterServerStrategy strategy;
  bg::Replicated<bg::models::Mlp> model;
  bg::Optimizer adam;
};

bg::FunctionData train_step(Trainer& trainer, const bg::FunctionCall& call) {
  const auto losses = trainer.strategy.run(
      [&](const bg::LabeledBatch& batch) {
        const at::Tensor loss =
            bg::losses::sparse_softmax_cross_entropy(trainer.model(batch.features), batch.labels);
        return trainer.adam.minimize(loss);
      },
      call.per_worker<bg::distribute::DistributedIterator<bg::LabeledBatch>>().next().value());
  return {.tensors = {{"loss", trainer.strategy.reduce_loss(losses)}}};
}

/// The functions of this program: the coordinator checks their names, and the workers run them.
bg::FunctionRegistry<Trainer> program_functions(const bg::Flags& flags) {
  bg::FunctionRegistry<Trainer> functions([](const bg::WorkerContext& worker) {
    return std::make_unique<Trainer>(worker.cluster, worker.cancel);
  });
  functions.add("train_step", train_step);
  functions.add("bad_step", [](Trainer&, const bg::FunctionCall&) -> bg::FunctionData {
    throw bg::Error(bg::ErrorCode::kOutOfRange, "This step is a bad one.");
  });
  functions.add_dataset("batches", [flags](Trainer& trainer, const bg::FunctionCall&) {
    const auto images = bg::fashion_mnist(flags.at("data_dir")).repeat().shuffle(10'000);
    return trainer.strategy.distribute(images.batch(64)).iterator();
  });
  return functions;
}

void coordinate(const bg::cluster::ClusterConfig& cluster, const bg::Flags& flags) {
  Trainer trainer(cluster);
  // Restores, saves, and calls hooks. A step of it is an epoch here.
  bg::MonitoredTrainingSession session(trainer.strategy, {.checkpoint_dir = flags.at("train_dir")});
  const auto functions = program_functions(flags);
  bg::ClusterCoordinator coordinator(trainer.strategy, functions);
  try {
    for (int step = std::stoi(flags.at("bad_steps")); step > 0; --step)
      coordinator.schedule("bad_step");
    coordinator.join();
  } catch (const bg::Error& error) {  // once, however many have failed
    std::cout << "An error: " << error.what() << std::endl;
  }
  const auto batches = coordinator.create_per_worker_dataset("batches");
  const auto test = bg::fashion_mnist(flags.at("data_dir"), bg::Split::kTest).batch(500);
  const int steps = std::stoi(flags.at("steps_per_epoch")), epochs = std::stoi(flags.at("epochs"));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto values = session.run([&]() -> std::optional<bg::StepValues> {
      std::vector<bg::RemoteValue> losses;
      for (int step = 0; step < steps; ++step)
        losses.push_back(coordinator.schedule("train_step", {}, {batches}));
      coordinator.join();
      trainer.strategy.fetch_state();  // the servers' values, to be evaluated and saved
      double sum = 0;
      for (const auto& each : coordinator.fetch(losses)) sum += each.tensor("loss").item<double>();
      return bg::StepValues{{"loss", at::scalar_tensor(sum / steps)}};
    });
    if (!values) break;
    const auto result = bg::train::evaluate(trainer.strategy, trainer.model, test);
    std::cout << "Epoch " << epoch << ": step " << session.state().global_step() << ", loss "
              << values->number("loss") << ", test accuracy " << result.accuracy << std::endl;
  }
  session.close();
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const bg::Flags flags = bg::parse_flags(
        argc, argv,
        {{"cluster", "chief=localhost:2221;ps=localhost:2222;worker=localhost:2223,localhost:2224"},
         {"task", "chief"},
         {"data_dir", bg::kFashionMnistDirectory},
         {"train_dir", ""},
         {"epochs", "3"},
         {"steps_per_epoch", "300"},
         {"bad_steps", "0"}});
    const auto cluster =
        bg::cluster::resolve_cluster(bg::cluster::process_environment(),
                                     {.cluster = flags.at("cluster"), .task = flags.at("task")});
    if (bg::is_server_task(cluster.task))
      bg::Server(cluster.cluster, cluster.task.job, cluster.task.index).join();
    else if (cluster.task.job == "worker")  // returns when the coordinator has ended
      bg::CoordinatedWorker(cluster, program_functions(flags)).join();
    else
      coordinate(cluster, flags);
  });
}
