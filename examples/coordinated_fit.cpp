// Model::fit with parameter servers and a chief that coordinates, as in Keras: this program in
// several shells. Chief and workers run the same lines; the chief schedules the steps, the workers
// make them, and all get the results.
//
//   example_coordinated_fit --task=ps:0
//   example_coordinated_fit --task=worker:0
//   example_coordinated_fit --task=worker:1
//   example_coordinated_fit --task=chief --train_dir=/tmp/fit
//   example_coordinated_fit --task=evaluator --train_dir=/tmp/fit
//
// The evaluator, which may be left out, evaluates the checkpoints that the chief saves in train_dir
// meanwhile. Further flags:
// --cluster (the addresses of all tasks), --data_dir, --epochs, and --steps_per_epoch.
#include <brigade/brigade.h>

#include <iostream>
#include <string>

namespace bg = brigade;

namespace {

bg::Model make_model(bg::Strategy& strategy) {
  bg::Model model(strategy,
                  bg::Sequential({bg::Flatten{}, bg::Dense{.units = 128, .activation = "relu"},
                                  bg::Dense{.units = 10, .activation = "softmax"}},
                                 {.input_shape = {{1, 28, 28}}}));
  model.compile(
      {.optimizer = "adam", .loss = "sparse_categorical_crossentropy", .metrics = {"accuracy"}});
  return model;
}

bg::data::Dataset<bg::LabeledBatch> test_data(const bg::Flags& flags) {
  return bg::fashion_mnist(flags.at("data_dir"), bg::Split::kTest).batch(500);
}

/// The program of chief and workers.
void train(const bg::cluster::ClusterConfig& cluster, const bg::Flags& flags) {
  bg::ParameterServerStrategy strategy(cluster, {.chief = bg::ChiefRole::kCoordinates});
  bg::Model model = make_model(strategy);
  bg::FitOptions options{.epochs = std::stoll(flags.at("epochs")),
                         .steps_per_epoch = std::stoll(flags.at("steps_per_epoch")),
                         .validation_data = test_data(flags),
                         .verbose = bg::Verbose::kSilent};
  options.session.checkpoint_dir = flags.at("train_dir");  // empty: nothing is saved
  options.session.save_checkpoints = {.time = std::chrono::seconds(2)};
  options.callbacks = {bg::LambdaCallback{.on_epoch_end = [](bg::FitContext& fit) {  // the chief's
    std::cout << "Epoch " << fit.epoch() + 1 << ": loss " << fit.logs().at("loss")
              << ", test accuracy " << fit.logs().at("val_accuracy") << std::endl;
  }}};
  const auto images = bg::fashion_mnist(flags.at("data_dir"));
  model.fit(images.shuffle(10'000).batch(64), options);
  std::cout << "Test accuracy " << model.evaluate(test_data(flags)).at("accuracy") << std::endl;
}

/// The program of the evaluator, until it has evaluated the last step.
void evaluate(const bg::Flags& flags) {
  bg::OneDeviceStrategy strategy;
  bg::Model model = make_model(strategy);
  model.build({1, 28, 28});
  bg::TrainingState state(strategy);
  state.add_variables(model.variables());
  const std::int64_t last_step =
      std::stoll(flags.at("epochs")) * std::stoll(flags.at("steps_per_epoch"));
  const bg::concurrency::CancelToken is_over;
  bg::train::evaluation_loop(state, flags.at("train_dir"),
                             {.final_values =
                                  [&] {
                                    bg::StepValues values;
                                    values.set("accuracy",
                                               model.evaluate(test_data(flags)).at("accuracy"));
                                    return values;
                                  }},
                             {.each = {.cancel = is_over},
                              .interval = std::chrono::seconds(1),
                              .on_evaluated = [&](const bg::train::EvaluationReport& each) {
                                std::cout << "Step " << each.step << ": test accuracy "
                                          << each.results.at("accuracy") << std::endl;
                                if (each.step >= last_step) is_over.cancel();
                              }});
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const bg::Flags flags = bg::parse_flags(
        argc, argv,
        {{"cluster",
          "chief=localhost:2221;ps=localhost:2222;worker=localhost:2223,localhost:2224;"
          "evaluator=localhost:2225"},
         {"task", "chief"},
         {"data_dir", bg::kFashionMnistDirectory},
         {"train_dir", ""},
         {"epochs", "3"},
         {"steps_per_epoch", "300"}});
    const auto cluster =
        bg::cluster::resolve_cluster(bg::cluster::process_environment(),
                                     {.cluster = flags.at("cluster"), .task = flags.at("task")});
    if (bg::is_server_task(cluster.task)) {
      bg::Server(cluster.cluster, cluster.task.job, cluster.task.index).join();
    } else if (cluster.task.job == "evaluator") {
      evaluate(flags);
    } else {
      train(cluster, flags);
    }
    return 0;
  });
}
