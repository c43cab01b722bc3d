#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/training_loop.h"
#include "brigade/base/log.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"

namespace brigade::command {
namespace {

constexpr std::chrono::milliseconds kPoll{200};

/// Whether the training that writes `directory` has begun or ended, by its run.json, which has a
/// result at the end. A run.json from before the start of this evaluator may belong to an earlier
/// training; it counts only if no other training has begun for a while.
class TrainingWatch {
 public:
  TrainingWatch(RunDirectory directory, std::chrono::milliseconds patience)
      : directory_(std::move(directory)),
        patience_(patience),
        began_(std::filesystem::file_time_type::clock::now()) {}

  /// Until then the directory may still be cleared.
  bool has_begun() const { return is_new() || (exists() && !directory_.has_result()); }

  bool has_ended() const {
    if (!exists() || !directory_.has_result()) return false;
    return is_new() || std::filesystem::file_time_type::clock::now() - began_ > patience_;
  }

 private:
  std::filesystem::path file() const { return directory_.path() / "run.json"; }
  bool exists() const { return std::filesystem::exists(file()); }
  bool is_new() const {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(file(), error);
    return !error && written >= began_;
  }

  RunDirectory directory_;
  std::chrono::milliseconds patience_;
  std::filesystem::file_time_type began_;
};

}  // namespace

int run_evaluator(const TrainFlags& flags) {
  flags.check();
  const std::string& model_dir = flags.checkpoints.model_dir;
  if (model_dir.empty()) {
    throw UsageError(
        "an evaluator needs --model-dir: it evaluates the checkpoints that are written there");
  }
  distribute::OneDeviceStrategy strategy(
      distribute::OneDeviceOptions{.threads_per_replica = flags.strategy.threads_per_replica,
                                   .seed = static_cast<std::uint64_t>(flags.strategy.seed)});
  const ImageInput image = set_up([&] { return flags.data.image_input(flags.model.model); });
  const Model model = flags.model.create(strategy, image);
  const auto batches = set_up([&] {
    return flags.data.load(input::Split::kTest, image).batch(flags.batch.global_size(1));
  });
  train::TrainingState state(strategy);
  state.add_model(model);
  std::optional<optim::ExponentialMovingAverage> averages = make_averages(flags.step, model);
  if (averages) state.add_averages(kAveragesName, *averages);

  const Interrupt interrupt;
  const TrainingWatch training(RunDirectory(io::posix_file_system(), model_dir),
                               std::chrono::milliseconds(static_cast<std::int64_t>(
                                   flags.strategy.cluster.start_timeout_seconds * 1e3)));
  train::EvaluationResult result;
  Json all = Json::array();
  const train::Evaluation evaluation{.final_values = [&] {
    std::optional<optim::AveragedWeights> averaged;
    if (averages) averaged.emplace(*averages);
    result = train::evaluate(strategy, model, batches);
    train::StepValues values;
    values.set("loss", result.loss);
    values.set("accuracy", result.accuracy);
    return values;
  }};
  base::log_info("evaluating the checkpoints of ", model_dir);
  while (!training.has_begun() && !training.has_ended() && !interrupt.received())
    std::this_thread::sleep_for(kPoll);  // another process's file: nothing else would wake us
  train::evaluation_loop(state, checkpoints_in(model_dir), evaluation,
                         {.each = {.summary_dir = evaluations_in(model_dir)},
                          .interval = std::chrono::milliseconds(0),
                          .timeout = kPoll,
                          .timeout_fn =
                              [&] {
                                return interrupt.received() || training.has_ended()
                                           ? train::AfterTimeout::kEnd
                                           : train::AfterTimeout::kKeepWaiting;
                              },
                          .poll = kPoll,
                          .on_evaluated =
                              [&](const train::EvaluationReport& evaluated) {
                                all.push_back(evaluation_json(evaluated.step, result));
                                log_evaluation(evaluated.step, result);
                              }});
  if (flags.output.json)
    print_json({{"task", "evaluator"}, {"evaluations", all}, {"model_dir", model_dir}});
  return interrupt.received() ? exit_code_after(*interrupt.received()) : kDone;
}

}  // namespace brigade::command
