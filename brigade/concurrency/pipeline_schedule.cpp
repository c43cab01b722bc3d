#include "brigade/concurrency/pipeline_schedule.h"

#include <algorithm>

#include "brigade/base/error.h"

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

/// The order in which a device begins the passes of one direction: in groups of one micro-batch a
/// device, each of which passes through all chunks before the next group begins.
std::vector<StagePass> in_groups(PassDirection direction, int devices, int micro_batches,
                                 int chunks) {
  std::vector<StagePass> order;
  for (int first = 0; first < micro_batches; first += devices) {
    for (int i = 0; i < chunks; ++i) {
      const int chunk = direction == PassDirection::kForward ? i : chunks - 1 - i;
      for (int m = first; m < first + devices; ++m)
        order.push_back({.direction = direction, .micro_batch = m, .chunk = chunk});
    }
  }
  return order;
}

/// The order has no deadlock if the number of micro-batches is a multiple of that of the devices.
/// Else it is that of the next multiple, without the passes of the micro-batches that do not
/// exist: leaving whole micro-batches out adds no wait.
std::vector<StagePass> interleaved(int device, int devices, int micro_batches, int chunks) {
  const int all = (micro_batches + devices - 1) / devices * devices;
  const std::vector<StagePass> forward = in_groups(PassDirection::kForward, devices, all, chunks);
  const std::vector<StagePass> backward = in_groups(PassDirection::kBackward, devices, all, chunks);
  const auto ahead = static_cast<std::size_t>((devices - device - 1) * 2 + (chunks - 1) * devices);
  std::vector<StagePass> order;
  std::size_t begun = 0;
  for (const StagePass& pass : backward) {
    for (; begun < forward.size() && begun < ahead + (&pass - backward.data()) + 1; ++begun)
      order.push_back(forward[begun]);
    order.push_back(pass);
  }
  std::erase_if(order, [&](const StagePass& pass) { return pass.micro_batch >= micro_batches; });
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
  if (schedule == PipelineSchedule::kInterleaved) return "interleaved";
  return schedule == PipelineSchedule::kGPipe ? "gpipe" : "1f1b";
}

StageOrders stage_orders(PipelineSchedule schedule, int devices, int micro_batches, int chunks) {
  check_argument(devices >= 1 && micro_batches >= 1, "A pipeline of ", devices, " stages and ",
                 micro_batches, " micro-batches: both must be at least 1.");
  const bool is_interleaved = schedule == PipelineSchedule::kInterleaved;
  check_argument(is_interleaved ? chunks >= 2 : chunks == 1, "A pipeline with ", chunks,
                 " chunks on each device and schedule ", to_string(schedule),
                 ": kInterleaved has two or more, the others have one.");
  StageOrders orders;
  for (int device = 0; device < devices; ++device) {
    if (is_interleaved) {
      orders.push_back(interleaved(device, devices, micro_batches, chunks));
    } else {
      orders.push_back(schedule == PipelineSchedule::kGPipe
                           ? all_then_all(micro_batches)
                           : one_by_one(devices - device, micro_batches));
    }
  }
  return orders;
}

SimulatedStep simulate(const StageOrders& orders, const std::vector<PassCosts>& costs) {
  std::size_t micro_batches = 0, left = 0, chunks = 1;
  for (const auto& order : orders) {
    left += order.size();
    for (const StagePass& pass : order) {
      micro_batches = std::max(micro_batches, static_cast<std::size_t>(pass.micro_batch) + 1);
      chunks = std::max(chunks, static_cast<std::size_t>(pass.chunk) + 1);
    }
  }
  check_argument(!orders.empty() && orders.size() * chunks == costs.size(), "There are costs of ",
                 costs.size(), " stages, and orders of ", orders.size() * chunks,
                 ": give one for each stage.");
  Ends ends(costs.size(), micro_batches);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0.0);
  SimulatedStep step;
  double busy = 0.0;
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t device = 0; device < orders.size(); ++device) {
      while (next[device] < orders[device].size()) {
        const StagePass& pass = orders[device][next[device]];
        const std::size_t stage = static_cast<std::size_t>(pass.chunk) * orders.size() + device;
        const double input = ends.input_of(stage, pass);
        if (input == kNotYet) break;
        const double cost = pass.direction == PassDirection::kForward ? costs[stage].forward
                                                                      : costs[stage].backward;
        free_at[device] = std::max(free_at[device], input) + cost;
        ends.of(stage, pass) = free_at[device];
        busy += cost;
        ++next[device];
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
