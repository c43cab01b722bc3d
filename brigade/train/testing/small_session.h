#pragma once

#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/event_file_reader.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

/// For tests: captures log lines while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    base::set_log_sink(
        [this](base::LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  ~CapturedLog() { base::set_log_sink({}); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  const std::vector<std::string>& lines() const { return lines_; }
  bool has(std::string_view text) const {
    for (const std::string& line : lines_) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

 private:
  std::vector<std::string> lines_;
};

/// For tests: a training whose only weight counts the steps, with an in-memory file system and a
/// manual clock. A new object stands for a new process.
struct SmallTraining {
  explicit SmallTraining(
      std::shared_ptr<io::FileSystem> the_files = std::make_shared<io::MemoryFileSystem>())
      : files(std::move(the_files)),
        strategy(distribute::cpus(1)),
        model(strategy.create<Weight>()),
        state(strategy) {
    state.add_model(model);
  }

  struct Weight : torch::nn::Module {
    Weight() { value = register_parameter("value", at::zeros({1}, at::kDouble)); }
    at::Tensor value;
  };

  SessionEnvironment environment() {
    return {.files = files, .clock = &clock, .wait = [this](auto time, const auto&) {
              clock.advance(time);
            }};
  }
  double value() const { return model->value.item<double>(); }
  /// A step adds one to the weight and returns it as the loss.
  StepValues step() {
    model.variables()[0].assign(model->value.detach() + 1);
    return {{"loss", model->value}};
  }
  MonitoredTrainingSession::StepFunction step_function() {
    return [this] { return std::optional(step()); };
  }
  /// Runs until the session stops, or for `max_steps` steps.
  void run(MonitoredTrainingSession& session, int max_steps = 1000) {
    for (int i = 0; i < max_steps && !session.should_stop(); ++i) session.run(step_function());
  }

  std::shared_ptr<io::FileSystem> files;
  base::ManualClock clock;
  distribute::MirroredStrategy strategy;
  distribute::Replicated<Weight> model;
  TrainingState state;
};

/// For tests: the scalars of all event files in a directory, as "tag@step" and value.
inline std::vector<std::pair<std::string, double>> scalar_values_in(const io::FileSystem& files,
                                                                    const io::Path& folder) {
  std::vector<std::pair<std::string, double>> found;
  for (const io::Path& path : summary::event_files(files, folder)) {
    summary::EventFileReader reader(files, path);
    while (const auto event = reader.next()) {
      const auto* summary = std::get_if<summary::Summary>(&event->content);
      if (summary == nullptr) continue;
      for (const summary::TaggedValue& each : summary->values) {
        const auto* scalar = std::get_if<summary::Scalar>(&each.value);
        found.emplace_back(base::str_cat(each.tag, "@", event->step), scalar ? scalar->value : 0.0);
      }
    }
  }
  return found;
}

/// For tests: the same, without the values.
inline std::vector<std::string> scalars_in(const io::FileSystem& files, const io::Path& folder) {
  std::vector<std::string> found;
  for (const auto& [name, value] : scalar_values_in(files, folder)) found.push_back(name);
  return found;
}

}  // namespace brigade::train
