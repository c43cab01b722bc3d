#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/scratch_folder.h"
#include "benchmarks/strategy_loop.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/session/session.h"
#include "brigade/train/session/training_state.h"

namespace brigade::benchmarks {

/// The loop that a session runs, without one. It takes the mean of the losses, as programs do
/// either way.
class LossLoop {
 public:
  LossLoop(Workload workload, int replicas, std::int64_t batch_size)
      : loop_(workload, replicas == 1 ? "one_device" : "mirrored", replicas, batch_size),
        state_(loop_.strategy()) {
    state_.add_variables(loop_.variables());
    state_.add_optimizer("optimizer", loop_.optimizer());
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) loss_ = step();
  }
  at::Tensor step() { return loop_.strategy().reduce_loss(loop_.step()); }
  train::TrainingState& state() { return state_; }

 private:
  StrategyLoop loop_;
  train::TrainingState state_;
  at::Tensor loss_;
};

struct LoopOptions {
  Workload workload = Workload::kMnistCnn;
  int replicas = 1;
  std::int64_t batch_size = 128;
  std::filesystem::path directory;  ///< Folders for checkpoints and event files are made in it.
};

/// That loop in a session.
class SessionLoop {
 public:
  /// The options of the session, given its own folder.
  using MakeOptions = std::function<train::SessionOptions(const std::filesystem::path& folder)>;

  SessionLoop(const LoopOptions& loop_options, const MakeOptions& options)
      : folder_(loop_options.directory),
        loop_(loop_options.workload, loop_options.replicas, loop_options.batch_size),
        session_(loop_.state(), options(folder_.path())) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i)
      session_.run([&] { return std::optional(train::StepValues{{"loss", loop_.step()}}); });
  }

 private:
  ScratchFolder folder_;
  LossLoop loop_;
  train::MonitoredTrainingSession session_;
};

/// A session that does nothing but save in the background, once each `every` steps. Blocks of that
/// many steps begin half-way between two saves and end when nothing is being written, so that each
/// holds the whole of one save.
class SavingLoop {
 public:
  /// Adds to `save_seconds` what each save takes of the training's own thread.
  SavingLoop(const LoopOptions& loop_options, int every, std::vector<double>& save_seconds)
      : watch_(std::make_shared<Watch>(save_seconds)),
        loop_(loop_options, [&](const auto& folder) { return options(folder, every); }) {
    loop_.run(every / 2);
  }
  void run(int steps) {
    loop_.run(steps);
    saver_->wait();
  }

 private:
  class Watch final : public train::CheckpointListener {
   public:
    explicit Watch(std::vector<double>& seconds) : seconds_(seconds) {}
    void before_save(train::SessionContext&) override { begin_ = wall_seconds(); }
    train::AfterSave after_save(train::SessionContext&) override {
      seconds_.push_back(wall_seconds() - begin_);
      return train::AfterSave::kContinue;
    }

   private:
    std::vector<double>& seconds_;
    double begin_ = 0;
  };

  train::SessionOptions options(const std::filesystem::path& folder, int every) {
    saver_ =
        train::CheckpointSaverHook{
            .saver = {.directory = folder}, .every = {.steps = every}, .listeners = {watch_}}
            .hook();
    return {.hooks = {saver_}, .save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
  }

  std::shared_ptr<Watch> watch_;
  std::shared_ptr<train::CheckpointSavingHook> saver_;
  SessionLoop loop_;
};

}  // namespace brigade::benchmarks
