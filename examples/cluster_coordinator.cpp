// A coordinator that directs workers: this program in four shells. The chief trains nothing. It
// schedules steps, which the workers run as they become free, and evaluates the model after each
// epoch.
//
//   example_cluster_coordinator --task=ps:0
//   example_cluster_coordinator --task=worker:0
//   example_cluster_coordinator --task=worker:1
//   example_cluster_coordinator --task=chief
//
// A worker that is killed costs nothing but its time: start it again, or leave it. Further flags:
// --cluster (the addresses of all tasks), --data_dir, --train_dir (the chief saves there and
// continues from it), --epochs, --steps_per_epoch, and --bad_steps (steps that fail, at the
// beginning, to see what becomes of an error).
#include <brigade/brigade.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

using Batches = bg::distribute::DistributedIterator<bg::LabeledBatch>;

/// This worker's batches of the training data, without end.
Batches make_batches(const Trainer& trainer, const bg::FunctionCall& call) {
  const auto dataset = bg::fashion_mnist(call.arguments.values.as_string("data_dir"));
  return trainer.strategy.distribute(dataset.repeat().shuffle(10'000).batch(64)).iterator();
}

/// One step on the next batch. The arguments may say that it is a bad one.
bg::FunctionData train_step(Trainer& trainer, const bg::FunctionCall& call) {
  if (call.arguments.values.has("bad"))
    throw bg::Error(bg::ErrorCode::kOutOfRange, "This step is a bad one.");
  const auto losses = trainer.strategy.run(
      [&](const bg::LabeledBatch& batch) {
        const at::Tensor loss =
            bg::losses::sparse_softmax_cross_entropy(trainer.model(batch.features), batch.labels);
        trainer.adam.minimize(loss);
        return loss.detach();
      },
      call.per_worker<Batches>().next().value());
  return {.tensors = {{"loss", trainer.strategy.reduce_mean_over_examples(losses)}}};
}

/// The functions of this program: the coordinator checks their names, and the workers run them.
bg::FunctionRegistry<Trainer> program_functions() {
  bg::FunctionRegistry<Trainer> functions([](const bg::WorkerContext& worker) {
    return std::make_unique<Trainer>(worker.cluster, worker.cancel);
  });
  functions.add("train_step", train_step);
  functions.add_dataset("batches", make_batches);
  return functions;
}

void schedule_bad_steps(bg::ClusterCoordinator& coordinator, int count) {
  bg::io::StateTree values;
  values["bad"] = true;
  try {
    for (int step = 0; step < count; ++step) coordinator.schedule("train_step", {.values = values});
    coordinator.join();
  } catch (const bg::Error& error) {  // once, however many have failed
    std::cout << "An error: " << error.what() << std::endl;
  }
}

/// One epoch of all workers together. Its value is the mean loss of the steps.
bg::StepValues run_epoch(bg::ClusterCoordinator& coordinator, const bg::PerWorkerValues& batches,
                         int steps) {
  std::vector<bg::RemoteValue> losses;
  for (int step = 0; step < steps; ++step)
    losses.push_back(coordinator.schedule("train_step", {}, {batches}));
  coordinator.join();
  double sum = 0;
  for (const auto& each : coordinator.fetch(losses)) sum += each.tensor("loss").item<double>();
  bg::StepValues values;
  values.set("loss", sum / steps);
  return values;
}

void coordinate(const bg::cluster::ClusterConfig& cluster, const bg::Flags& flags) {
  Trainer trainer(cluster);
  // Restores, saves, and calls hooks. A step of it is an epoch here.
  bg::MonitoredTrainingSession session(trainer.strategy, {.checkpoint_dir = flags.at("train_dir")});
  const auto functions = program_functions();
  bg::ClusterCoordinator coordinator(trainer.strategy, functions);
  schedule_bad_steps(coordinator, std::stoi(flags.at("bad_steps")));
  bg::io::StateTree data;
  data["data_dir"] = flags.at("data_dir");
  const auto batches = coordinator.create_per_worker_dataset("batches", data);
  const auto test = bg::fashion_mnist(flags.at("data_dir"), bg::Split::kTest).batch(500);
  for (int epoch = 1; epoch <= std::stoi(flags.at("epochs")); ++epoch) {
    const auto values = session.run([&]() -> std::optional<bg::StepValues> {
      auto of_epoch = run_epoch(coordinator, batches, std::stoi(flags.at("steps_per_epoch")));
      trainer.strategy.fetch_state();  // the servers' values, to be evaluated and saved
      return of_epoch;
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
    if (bg::is_server_task(cluster.task)) {
      bg::Server(cluster.cluster, cluster.task.job, cluster.task.index).join();
    } else if (cluster.task.job == "worker") {
      const auto functions = program_functions();
      bg::CoordinatedWorker(cluster, functions).join();  // returns when the coordinator has ended
    } else {
      coordinate(cluster, flags);
    }
    return 0;
  });
}
