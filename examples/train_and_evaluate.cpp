// Training and evaluation side by side, as Estimator's train_and_evaluate: the workers train, the
// first of them saves checkpoints, and an evaluator evaluates each of them. All tasks run this
// program:
//
//   brigade launch --ps 1 --workers 2 --evaluator -- example_train_and_evaluate MODEL_DIR
//   [MAX_STEPS]
//
// Without a cluster it trains and evaluates in one process.
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace bg = brigade;
namespace layers = bg::layers::v1;  // TensorFlow 1's tf.layers

namespace {

/// What Estimator takes apart in RunConfig, TrainSpec and EvalSpec.
struct Options {
  std::string model_dir;
  std::int64_t max_steps = 1000;
};

at::Tensor model_fn(const at::Tensor& images, bg::Mode mode) {
  at::Tensor net = layers::dense(images.flatten(1), 128, {.activation = bg::layers::relu});
  net = layers::dropout(net, {.rate = 0.2, .mode = mode});
  return layers::dense(net, 10);
}

bg::Dataset<bg::LabeledBatch> train_input_fn() {
  return bg::fashion_mnist().repeat().shuffle(10'000).batch(64).prefetch(bg::kAutotune);
}

bg::Dataset<bg::LabeledBatch> eval_input_fn() {
  return bg::fashion_mnist(bg::kFashionMnistDirectory, bg::Split::kTest).batch(500);
}

void train(bg::Strategy& strategy, const Options& options) {
  const auto model = strategy.create(model_fn, at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  auto batches = strategy.distribute(train_input_fn()).iterator();
  bg::MonitoredTrainingSession session(
      strategy, {.checkpoint_dir = options.model_dir,
                 .hooks = {bg::StopAtStepHook{.last_step = options.max_steps}},
                 .save_checkpoints = {.steps = options.max_steps / 4}});
  while (!session.should_stop()) {
    session.run(batches, [&](const bg::LabeledBatch& local) {
      const at::Tensor loss =
          bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
      return adam.minimize(loss);
    });
  }
  session.close();
}

/// Evaluates the checkpoints of `model_dir` as they appear, up to that of the last step.
void evaluate(const Options& options) {
  bg::OneDeviceStrategy strategy;
  const auto model = strategy.create(model_fn, at::zeros({1, 1, 28, 28}));
  bg::TrainingState state(strategy);
  state.add_model(model);
  const bg::train::Evaluation evaluation{.final_values = [&] {
    bg::StepValues values;
    values.set("accuracy", bg::train::evaluate(strategy, model, eval_input_fn()).accuracy);
    return values;
  }};
  const bg::concurrency::CancelToken is_over;
  double accuracy = 0;
  bg::train::evaluation_loop(
      state, options.model_dir, evaluation,
      {.each = {.summary_dir = options.model_dir + "/eval", .cancel = is_over},
       .interval = std::chrono::milliseconds(0),
       .timeout = std::chrono::minutes(10),
       .poll = std::chrono::milliseconds(100),
       .on_evaluated = [&](const bg::train::EvaluationReport& each) {
         accuracy = each.results.at("accuracy");
         std::cout << "Step " << each.step << ": accuracy " << accuracy << std::endl;
         if (each.step >= options.max_steps) is_over.cancel();
       }});
  bg::check_state(is_over.is_cancelled(), "The checkpoint of the last step did not come.");
  bg::check_state(accuracy > 0.6, "The accuracy is below 0.6.");
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    bg::check_argument(argc > 1, "Give the directory of the model.");
    const Options options{.model_dir = argv[1], .max_steps = argc > 2 ? std::atoll(argv[2]) : 1000};
    const auto config = bg::cluster::resolve_cluster();  // TF_CONFIG
    if (config.source == bg::cluster::kNoCluster) {
      bg::OneDeviceStrategy strategy;
      train(strategy, options);
      evaluate(options);
    } else if (bg::is_server_task(config.task)) {
      bg::Server(config.cluster, config.task.job, config.task.index).join();
    } else if (config.task.job == "evaluator") {
      evaluate(options);
    } else {
      bg::ParameterServerStrategy strategy(config);
      train(strategy, options);
    }
  });
}
