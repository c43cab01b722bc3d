// A training that saves checkpoints, and a loop in another thread that evaluates them with its own
// strategy, until no new checkpoint appears. Exits with 1 if its results differ from the
// training's.
//
//   example_evaluation_loop [FOLDER]
#include <brigade/brigade.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <thread>

namespace bg = brigade;

namespace {

const auto kExamples = bg::synthetic(1100, {10}, 10);
const auto kTest = kExamples.skip(1000).batch(32);

/// Evaluates all checkpoints in `folder` until `is_over`; the accuracy of each.
std::map<std::int64_t, double> evaluate(const std::string& folder,
                                        const std::atomic<bool>& is_over) {
  bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto model = strategy.create<torch::nn::LinearImpl>(10, 10);
  bg::TrainingState state(strategy);
  state.add_model(model);
  std::map<std::int64_t, double> accuracies;
  const bg::train::Evaluation evaluation{.final_values = [&] {
    bg::StepValues values;
    values.set("accuracy", bg::train::evaluate(strategy, model, kTest).accuracy);
    return values;
  }};
  bg::train::evaluation_loop(
      state, folder, evaluation,
      {.each = {.summary_dir = folder + "/eval"},
       .interval = std::chrono::milliseconds(0),
       .timeout = std::chrono::milliseconds(200),
       .timeout_fn =
           [&] {
             return is_over ? bg::train::AfterTimeout::kEnd : bg::train::AfterTimeout::kKeepWaiting;
           },
       .poll = std::chrono::milliseconds(20),
       .on_evaluated =
           [&](const bg::train::EvaluationReport& each) {
             accuracies[each.step] = each.results.at("accuracy");
             std::cout << "step " << each.step << ": accuracy " << accuracies[each.step] << "\n";
           }});
  return accuracies;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : "evaluation_loop_run";
    std::filesystem::remove_all(folder);
    std::atomic<bool> is_over = false;
    std::map<std::int64_t, double> evaluated;
    std::thread evaluator([&] { evaluated = evaluate(folder, is_over); });

    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    const auto model = strategy.create<torch::nn::LinearImpl>(10, 10);
    const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-2});
    auto batches = strategy.distribute(kExamples.take(1000).repeat(4).batch(50)).iterator();
    bg::MonitoredTrainingSession session(
        strategy, {.checkpoint_dir = folder, .save_checkpoints = {.steps = 20}});
    while (!session.should_stop()) {
      session.run(batches, [&](const bg::LabeledBatch& batch) {
        const auto loss =
            bg::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels);
        return adam.minimize(loss);
      });
    }
    session.close();
    const double live = bg::train::evaluate(strategy, model, kTest).accuracy;
    is_over = true;
    evaluator.join();
    const bool holds = evaluated.contains(80) && evaluated.at(80) == live;
    std::cout << "the trained model itself: accuracy " << live
              << (holds ? "\n" : ": NOT THE SAME\n");
    std::filesystem::remove_all(folder);
    return holds ? 0 : 1;
  });
}
