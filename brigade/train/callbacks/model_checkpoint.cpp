#include "brigade/train/callbacks/model_checkpoint.h"

#include "brigade/base/error.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/train/session/training_state.h"
#include "brigade/train/session/workers_saver.h"

namespace brigade::train {
namespace {

class ModelCheckpointCallback final : public Callback {
 public:
  explicit ModelCheckpointCallback(ModelCheckpoint options)
      : options_(std::move(options)), best_(options_.initial_value_threshold) {
    if (options_.save_best_only)
      monitor_.emplace("ModelCheckpoint", options_.monitor, options_.mode);
  }

  void on_train_begin(FitContext& fit) override {
    fit.add_checkpointable(
        {.name = "model_checkpoint",
         .save = [this] { return state(); },
         .restore = [this](const CheckpointableState& saved) { restore(saved); }});
    saver_.emplace(fit.state().strategy(), io::posix_file_system(),
                   checkpoint::SaverOptions{.directory = options_.directory,
                                            .keep_last = options_.keep_last,
                                            .writers = options_.writers});
  }

  void on_train_batch_end(FitContext& fit) override {
    if (!options_.every_batches || ++batches_ < *options_.every_batches) return;
    batches_ = 0;
    save(fit);
  }

  void on_epoch_end(FitContext& fit) override {
    if (options_.every_batches) return;
    if (monitor_) {
      const std::optional<double> current = monitor_->value(fit.logs());
      // Without the metric every epoch is saved, as in Keras.
      if (current && !monitor_->is_improvement(*current, best_)) return;
      if (current) best_ = current;
    }
    save(fit);
  }

  void on_train_end(FitContext&) override {
    saver_->close();
    saver_.reset();
  }

 private:
  CheckpointableState state() const {
    CheckpointableState saved{.tree = io::StateTree::dict()};
    saved.tree["batches"] = batches_;
    saved.tree["best"] = saved_best(best_);
    return saved;
  }

  void restore(const CheckpointableState& saved) {
    const std::int64_t batches = saved.tree.at("batches").as_int64();
    best_ = restored_best(saved.tree.at("best"));
    batches_ = batches;
  }

  void save(FitContext& fit) {
    checkpoint::Contents contents = fit.state().contents();
    for (const auto& [name, value] : fit.logs()) contents.metrics[name] = value;
    saver_->save(fit.state().global_step(), contents);
  }

  const ModelCheckpoint options_;
  std::optional<MetricMonitor> monitor_;
  std::optional<double> best_;
  std::int64_t batches_ = 0;  // since the last save
  std::optional<WorkersSaver> saver_;
};

}  // namespace

std::shared_ptr<Callback> ModelCheckpoint::callback() const {
  check_argument(!directory.empty(), "ModelCheckpoint: directory is empty.");
  check_argument(!every_batches || *every_batches > 0,
                 "ModelCheckpoint: every_batches must be at least 1.");
  check_argument(
      !every_batches || !save_best_only,
      "ModelCheckpoint: metrics are complete at the end of an epoch only, so save_best_only "
      "and every_batches cannot both be set.");
  return std::make_shared<ModelCheckpointCallback>(*this);
}

}  // namespace brigade::train
