#include "brigade/train/callbacks/checkpoint_callbacks.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/distribute/strategy.h"
#include "brigade/train/session/session.h"
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
    fit.add_checkpointable(monitor_state("model_checkpoint", {{"batches", &batches_}}, &best_));
    saver_.emplace(fit.state().strategy(), io::posix_file_system(),
                   checkpoint::SaverOptions{.directory = options_.directory,
                                            .keep_last = options_.keep_last,
                                            .writers = options_.writers});
  }

  void on_train_batch_end(FitContext& fit) override {
    if (!options_.every_batches) return;
    batches_ += fit.new_batches();
    if (batches_ < *options_.every_batches) return;
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
  void save(FitContext& fit) {
    if (!saver_->participates()) return;
    checkpoint::Contents contents = fit.state().contents();
    for (const auto& [name, value] : fit.logs()) contents.metrics[name] = value;
    saver_->save(contents.state.as_int64("global_step"), contents);
  }

  const ModelCheckpoint options_;
  std::optional<MetricMonitor> monitor_;
  std::optional<double> best_;
  std::int64_t batches_ = 0;  // since the last save
  std::optional<WorkersSaver> saver_;
};

class BackupAndRestoreCallback final : public Callback {
 public:
  explicit BackupAndRestoreCallback(BackupAndRestore options) : options_(std::move(options)) {}

  void prepare_session(SessionOptions& session) override {
    check_argument(!session.resume_from,
                   "BackupAndRestore: the fit's session has resume_from set already.");
    const auto files = io::posix_file_system();
    const auto latest = checkpoint::find_latest_complete(files, options_.backup_dir);
    if (!latest.checkpoint && !latest.broken.empty()) {
      throw Error(ErrorCode::kDataLoss, "BackupAndRestore: none of the backups in ",
                  options_.backup_dir.string(), " is complete (", latest.broken.back().reason,
                  "): move them away to start over, or use another backup_dir.");
    }
    broken_.clear();
    for (const auto& broken : latest.broken) {
      base::log_warning("Skipped the broken backup ", broken.path.string(), ": ", broken.reason);
      broken_.push_back(broken.path);
    }
    if (latest.checkpoint) session.resume_from = latest.checkpoint->path();
    current_epoch_ = std::nullopt;
    batches_ = 0;
  }

  // Keeps two, in case the newest turns out to be broken.
  void on_train_begin(FitContext& fit) override {
    saver_.emplace(
        fit.state().strategy(), io::posix_file_system(),
        checkpoint::SaverOptions{
            .directory = options_.backup_dir, .keep_last = 2, .writers = options_.writers});
    saver_->set_aside(broken_);
  }

  // The end of an epoch is saved at the beginning of the next: by then all callbacks have seen it.
  void on_epoch_begin(FitContext& fit) override {
    if (current_epoch_ && *current_epoch_ != fit.epoch()) save(fit);
    current_epoch_ = fit.epoch();
  }

  void on_train_batch_end(FitContext& fit) override {
    if (!options_.every_batches) return;
    batches_ += fit.new_batches();
    if (batches_ < *options_.every_batches) return;
    if (save(fit)) batches_ = 0;
  }

  void on_train_end(FitContext& fit) override {
    if (fit.is_interrupted()) save(fit);
    saver_->close();
    saver_.reset();
    const bool is_done = !fit.is_interrupted() && fit.state().strategy().is_chief();
    if (is_done && options_.delete_checkpoint)
      checkpoint::clear_directory(*io::posix_file_system(), options_.backup_dir);
  }

 private:
  // Between two micro-batches of one update nothing can be saved; the caller tries again.
  bool save(FitContext& fit) {
    if (!fit.state().is_between_updates()) return false;
    if (!saver_->participates()) return true;
    const checkpoint::Contents contents = fit.state().contents();
    saver_->save(contents.state.as_int64("global_step"), contents);
    return true;
  }

  const BackupAndRestore options_;
  std::optional<WorkersSaver> saver_;
  std::vector<io::Path> broken_;               // found at the start
  std::optional<std::int64_t> current_epoch_;  // the epoch
  std::int64_t batches_ = 0;                   // since the last save
};

}  // namespace

std::shared_ptr<Callback> ModelCheckpoint::callback() const {
  check_argument(!directory.empty(), "ModelCheckpoint: directory is empty.");
  check_argument(!every_batches || *every_batches > 0,
                 "ModelCheckpoint: every_batches must be at least 1.");
  check_argument(!every_batches || !save_best_only,
                 "ModelCheckpoint: metrics are complete at the end of an epoch only, so "
                 "save_best_only and every_batches cannot both be set.");
  return std::make_shared<ModelCheckpointCallback>(*this);
}

std::shared_ptr<Callback> BackupAndRestore::callback() const {
  check_argument(!backup_dir.empty(), "BackupAndRestore: backup_dir is empty.");
  check_argument(!every_batches || *every_batches > 0,
                 "BackupAndRestore: every_batches must be at least 1.");
  return std::make_shared<BackupAndRestoreCallback>(*this);
}

}  // namespace brigade::train
