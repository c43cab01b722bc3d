#include "brigade/concurrency/pipeline_schedule.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::concurrency {

namespace {

constexpr double kNotYet = -1.0;

std::vector<StagePass> all_then_all(int micro_batches) {
  std::vector<StagePass> order;
  for (const PassDirection direction : {PassDirection::kForward, PassDirection::kBackward}) {
    for (int m = 0; m < micro_batches; ++m)
      order.push_back({.direction = direction, .micro_batch = m});
  }
  return order;
}

std::vector<StagePass> one_by_one(int in_flight, int micro_batches) {
  std::vector<StagePass> order;
  int forward = 0;
  for (int backward = 0; backward < micro_batches; ++backward) {
    while (forward < std::min(backward + in_flight, micro_batches))
      order.push_back({.direction = PassDirection::kForward, .micro_batch = forward++});
    order.push_back({.direction = PassDirection::kBackward, .micro_batch = backward});
  }
  return order;
}

/// When each pass ended: [stage][micro-batch].
class Ends {
 public:
  Ends(std::size_t stages, std::size_t micro_batches)
      : forward_(stages, std::vector<double>(micro_batches, kNotYet)), backward_(forward_) {}

  double& of(std::size_t stage, const StagePass& pass) {
    auto& ends = pass.direction == PassDirection::kForward ? forward_ : backward_;
    return ends[stage][static_cast<std::size_t>(pass.micro_batch)];
  }
  /// When the input of a pass is there; kNotYet if it is not known yet.
  double input_of(std::size_t stage, const StagePass& pass) const {
    const auto m = static_cast<std::size_t>(pass.micro_batch);
    if (pass.direction == PassDirection::kForward) return stage == 0 ? 0.0 : forward_[stage - 1][m];
    return stage + 1 == forward_.size() ? forward_[stage][m] : backward_[stage + 1][m];
  }

 private:
  std::vector<std::vector<double>> forward_, backward_;
};

int peak_of(const std::vector<StagePass>& order) {
  int now = 0, peak = 0;
  for (const StagePass& pass : order) {
    now += pass.direction == PassDirection::kForward ? 1 : -1;
    peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace

std::string_view to_string(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kGPipe ? "gpipe" : "1f1b";
}

StageOrders stage_orders(PipelineSchedule schedule, int stages, int micro_batches) {
  check_argument(stages >= 1 && micro_batches >= 1,
                 base::str_cat("A pipeline of ", stages, " stages and ", micro_batches,
                               " micro-batches: both must be at least 1."));
  StageOrders orders;
  for (int stage = 0; stage < stages; ++stage) {
    orders.push_back(schedule == PipelineSchedule::kGPipe
                         ? all_then_all(micro_batches)
                         : one_by_one(stages - stage, micro_batches));
  }
  return orders;
}

SimulatedStep simulate(const StageOrders& orders, const std::vector<PassCosts>& costs) {
  check_argument(!orders.empty() && orders.size() == costs.size(),
                 base::str_cat("There are costs of ", costs.size(), " stages, and orders of ",
                               orders.size(), ": give one for each stage."));
  std::size_t micro_batches = 0, left = 0;
  for (const auto& order : orders) {
    left += order.size();
    for (const StagePass& pass : order)
      micro_batches = std::max(micro_batches, static_cast<std::size_t>(pass.micro_batch) + 1);
  }
  Ends ends(orders.size(), micro_batches);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0.0);
  SimulatedStep step;
  double busy = 0.0;
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
      while (next[stage] < orders[stage].size()) {
        const StagePass& pass = orders[stage][next[stage]];
        const double input = ends.input_of(stage, pass);
        if (input == kNotYet) break;
        const double cost = pass.direction == PassDirection::kForward ? costs[stage].forward
                                                                      : costs[stage].backward;
        free_at[stage] = std::max(free_at[stage], input) + cost;
        ends.of(stage, pass) = free_at[stage];
        busy += cost;
        ++next[stage];
        --left;
      }
    }
    check_argument(left < before, "The orders of the stages wait for one another without end.");
  }
  step.duration = *std::max_element(free_at.begin(), free_at.end());
  if (step.duration > 0.0)
    step.bubble = 1.0 - busy / (step.duration * static_cast<double>(orders.size()));
  for (const auto& order : orders) step.peak_micro_batches.push_back(peak_of(order));
  return step;
}

}  // namespace brigade::concurrency
