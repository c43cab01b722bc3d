#include "brigade/train/callbacks/tensor_board.h"

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

constexpr std::string_view kValidation = "val_";

class TensorBoardCallback final : public Callback {
 public:
  explicit TensorBoardCallback(TensorBoard options)
      : options_(std::move(options)), graph_({.write_graph = options_.write_graph}) {}

  void on_train_begin(FitContext&) override {
    training_ = writer("train");
    validation_.reset();
  }

  void on_train_batch_begin(FitContext&) override { graph_.before_step(clock_); }

  void on_train_batch_end(FitContext& fit) override {
    graph_.after_step(*training_, fit.state());
    if (options_.update_freq != UpdateFrequency::kBatch) return;
    training_->scalar("batch_loss", fit.step_values().number("loss"), fit.state().global_step());
  }

  void on_epoch_end(FitContext& fit) override {
    for (const auto& [name, value] : fit.logs()) {
      if (name.starts_with(kValidation)) {
        if (!validation_) validation_ = writer("validation");
        validation_->scalar("epoch_" + name.substr(kValidation.size()), value, fit.epoch());
      } else {
        training_->scalar("epoch_" + name, value, fit.epoch());
      }
    }
    if (options_.histogram_freq > 0 && fit.epoch() % options_.histogram_freq == 0)
      write_histograms(fit);
    training_->flush();
    if (validation_) validation_->flush();
  }

  void on_train_end(FitContext&) override {
    graph_.stop();
    training_->close();
    if (validation_) validation_->close();
  }

 private:
  std::unique_ptr<summary::SummaryWriter> writer(const char* folder) const {
    return std::make_unique<summary::SummaryWriter>(io::posix_file_system(),
                                                    options_.log_dir / folder, clock_);
  }

  void write_histograms(const FitContext& fit) {
    for (const variables::Variable& variable : fit.variables()) {
      const at::Tensor values = variable.read().to(at::kCPU, at::kDouble).contiguous();
      training_->histogram(
          variable.name() + "/histogram",
          std::span(values.const_data_ptr<double>(), static_cast<std::size_t>(values.numel())),
          fit.epoch());
    }
  }

  const TensorBoard options_;
  base::SystemClock clock_;
  GraphWriter graph_;
  std::unique_ptr<summary::SummaryWriter> training_, validation_;
};

}  // namespace

std::shared_ptr<Callback> TensorBoard::callback() const {
  check_argument(!log_dir.empty(), "TensorBoard: log_dir is empty.");
  check_argument(histogram_freq >= 0, "TensorBoard: histogram_freq must not be negative.");
  return std::make_shared<TensorBoardCallback>(*this);
}

}  // namespace brigade::train
