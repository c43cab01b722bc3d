#include "brigade/train/callbacks/logging_callbacks.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

class CsvLoggerCallback final : public Callback {
 public:
  explicit CsvLoggerCallback(CsvLogger options) : options_(std::move(options)) {}

  void on_train_begin(FitContext&) override {
    const bool appends = options_.append;
    std::error_code none;
    const auto size = std::filesystem::file_size(options_.path, none);
    has_header_ = appends && !none && size > 0;
    names_.clear();
    file_.close();
    file_.clear();
    file_.open(options_.path, appends ? std::ios::app : std::ios::trunc);
    file_.precision(std::numeric_limits<double>::max_digits10);
    check_written();
  }

  void on_epoch_end(FitContext& fit) override {
    if (names_.empty()) choose_names(fit.logs());
    if (!has_header_) write_header();
    file_ << fit.epoch();
    for (const std::string& name : names_) {
      const auto found = fit.logs().find(name);
      file_ << options_.separator;
      if (found == fit.logs().end()) {
        file_ << "NA";
      } else {
        file_ << found->second;
      }
    }
    file_ << std::endl;
    check_written();
  }

  void on_train_end(FitContext&) override { file_.close(); }

 private:
  // If the first epoch has no validation, adds columns for that of later epochs.
  void choose_names(const Logs& logs) {
    for (const auto& [name, value] : logs) names_.push_back(name);
    const bool has_validation = std::any_of(
        names_.begin(), names_.end(), [](const auto& name) { return name.rfind("val_", 0) == 0; });
    if (has_validation) return;
    const std::size_t count = names_.size();
    for (std::size_t i = 0; i < count; ++i) names_.push_back("val_" + names_[i]);
  }

  void write_header() {
    file_ << "epoch";
    for (const std::string& name : names_) file_ << options_.separator << name;
    file_ << "\n";
    has_header_ = true;
  }

  void check_written() const {
    if (file_.good()) return;
    throw Error(ErrorCode::kUnavailable, "CsvLogger: cannot write ", std::string(options_.path),
                ". Does its directory exist, and is there space on the disk?");
  }

  const CsvLogger options_;
  std::ofstream file_;
  std::vector<std::string> names_;
  bool has_header_ = false;
};

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
    for (const std::string& name : fit.step_values().names())
      training_->scalar("batch_" + name, fit.step_values().number(name), fit.state().global_step());
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

std::shared_ptr<Callback> CsvLogger::callback() const {
  check_argument(!std::string(path).empty(), "CsvLogger: path is empty.");
  return std::make_shared<CsvLoggerCallback>(*this);
}

std::shared_ptr<Callback> TensorBoard::callback() const {
  check_argument(!log_dir.empty(), "TensorBoard: log_dir is empty.");
  check_argument(histogram_freq >= 0, "TensorBoard: histogram_freq must not be negative.");
  return std::make_shared<TensorBoardCallback>(*this);
}

}  // namespace brigade::train
