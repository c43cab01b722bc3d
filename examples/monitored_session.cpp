// A MonitoredTrainingSession without `fit`: starts from given weights, writes two classes of
// summaries at two rates, saves, and stops when the data ends. Exits with 1 if it did not.
//
//   example_monitored_session [FOLDER]
#include <brigade/brigade.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <string>

namespace bg = brigade;

namespace {

constexpr int kSteps = 40;

/// How often each tag stands in the event files of a folder.
std::map<std::string, int> tags_in(const std::string& folder) {
  std::map<std::string, int> count;
  const auto files = bg::io::posix_file_system();
  for (const auto& path : bg::summary::event_files(*files, folder)) {
    bg::summary::EventFileReader reader(*files, path);
    while (const auto event = reader.next()) {
      if (const auto* summary = std::get_if<bg::summary::Summary>(&event->content))
        for (const auto& value : summary->values) ++count[value.tag];
    }
  }
  return count;
}

/// 1 if the claim does not hold.
int check(bool holds, const char* claim) {
  std::cout << (holds ? "ok: " : "NOT SO: ") << claim << "\n";
  return holds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : "monitored_session_run";
    std::filesystem::remove_all(folder);
    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    const auto model = strategy.create<torch::nn::LinearImpl>(10, 10);
    const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-2});
    auto batches = strategy.distribute(bg::synthetic(kSteps * 64, {10}, 10).batch(64)).iterator();

    // Pretrained weights.
    const at::Tensor given = model.variables()[0].read().clone();
    bg::checkpoint::Saver({.directory = folder + "/given"})
        .save(0, {.variables = model.variables()});
    model.variables()[0].assign(at::zeros_like(given));

    // The loss often, the weights' distribution seldom.
    const auto weights = [&](bg::summary::SummaryWriter& writer, std::int64_t step, const auto&) {
      const at::Tensor values = model.variables()[0].read().contiguous();
      writer.histogram("weights", std::span(values.const_data_ptr<float>(), values.numel()), step);
    };
    bool began_with_given = false;
    bg::MonitoredTrainingSession session(
        strategy, {.checkpoint_dir = folder + "/run",
                   .scaffold = {.init = bg::slim::assign_from_checkpoint_fn(folder + "/given",
                                                                            model.variables()),
                                .local_init =
                                    [&](bg::TrainingState&) {
                                      began_with_given = model.variables()[0].read().equal(given);
                                    }},
                   .hooks = {bg::SummarySaverHook{.every = {.steps = 10}, .summaries = weights}},
                   .save_checkpoints = {.steps = 15},
                   .save_summaries = {.steps = 2}});
    while (!session.should_stop()) {
      session.run(batches, [&](const bg::LabeledBatch& batch) {
        const at::Tensor loss =
            bg::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels);
        return adam.minimize(loss);
      });
    }
    session.close();

    const auto tags = tags_in(folder + "/run");
    const auto latest = bg::checkpoint::find_latest_complete(folder + "/run");
    const int failures =
        check(began_with_given, "training began with the given weights") +
        check(session.state().global_step() == kSteps,
              "it stopped when the data ended, after 40 steps") +
        check(tags.at("loss") == kSteps / 2, "the loss was written at each second step") +
        check(tags.at("weights") == kSteps / 10, "the weights' histogram at each tenth") +
        check(latest.checkpoint && latest.checkpoint->step() == kSteps, "the last step is saved");
    std::filesystem::remove_all(folder);
    return failures == 0 ? 0 : 1;
  });
}
