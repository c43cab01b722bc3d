#include "brigade/concurrency/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A step on virtual time: what begins first is computed first, so nothing that is computed later
/// could have made it begin earlier.
class Simulation {
 public:
  Simulation(const StageOrders& orders, const std::vector<PassCosts>& costs, int micro_batches,
             int deferred_micro_batches)
      : orders_(orders),
        costs_(costs),
        most_kept_(deferred_micro_batches),
        ends_(costs.size(), static_cast<std::size_t>(micro_batches)),
        next_(orders.size(), 0),
        free_at_(orders.size(), 0.0),
        kept_until_(costs.size(), std::vector<double>(static_cast<std::size_t>(micro_batches))) {}

  SimulatedStep run() {
    while (compute_next()) {
    }
    for (std::size_t device = 0; device < orders_.size(); ++device) {
      check_argument(next_[device] == orders_[device].size(),
                     "The orders of the stages wait for one another without end.");
    }
    SimulatedStep step;
    step.duration = *std::ranges::max_element(free_at_);
    if (step.duration > 0.0)
      step.bubble = 1.0 - busy_ / (step.duration * static_cast<double>(orders_.size()));
    for (const auto& order : orders_) step.peak_micro_batches.push_back(peak_of(order));
    return step;
  }

 private:
  /// The gradient of a weight that was left for later.
  struct Deferred {
    double ready = 0.0;
    double cost = 0.0;
    std::size_t stage = 0, micro_batch = 0;
  };

  const StagePass& next_of(std::size_t device) const { return orders_[device][next_[device]]; }
  std::size_t stage_of(std::size_t device, const StagePass& pass) const {
    return static_cast<std::size_t>(pass.chunk) * orders_.size() + device;
  }

  double begin_of_pass(std::size_t device) const {
    if (next_[device] == orders_[device].size()) return kNever;
    const StagePass& pass = next_of(device);
    const double input = ends_.input_of(stage_of(device, pass), pass);
    return input == kNotYet ? kNever : std::max(free_at_[device], input);
  }
  double begin_of_deferred(std::size_t device) const {
    return deferred_.empty() ? kNever : std::max(free_at_[device], oldest()->ready);
  }
  std::vector<Deferred>::const_iterator oldest() const {
    return std::ranges::min_element(deferred_, {}, &Deferred::ready);
  }

  /// False if nothing can be computed.
  bool compute_next() {
    double first = kNever;
    std::size_t chosen = 0;
    for (std::size_t device = 0; device < orders_.size(); ++device) {
      const double begin = std::min(begin_of_pass(device), begin_of_deferred(device));
      if (begin < first) chosen = device;
      first = std::min(first, begin);
    }
    if (first == kNever) return false;
    if (begin_of_pass(chosen) == first) {
      compute_pass(chosen, first);
    } else {
      compute_deferred(chosen, first);
    }
    return true;
  }

  void compute_pass(std::size_t device, double begin) {
    const StagePass& pass = next_of(device);
    const std::size_t stage = stage_of(device, pass);
    const PassCosts& costs = costs_[stage];
    const bool is_forward = pass.direction == PassDirection::kForward;
    double cost = is_forward ? costs.forward : costs.backward;
    const bool defers = !is_forward && !costs.weight_gradients.empty() && may_defer(stage, begin);
    if (defers) cost -= std::reduce(costs.weight_gradients.begin(), costs.weight_gradients.end());
    occupy(device, begin, std::max(0.0, cost));
    ends_.of(stage, pass) = free_at_[device];
    ++next_[device];
    if (!defers) return;
    const auto micro_batch = static_cast<std::size_t>(pass.micro_batch);
    for (const double each : costs.weight_gradients) {
      deferred_.push_back(
          {.ready = free_at_[device], .cost = each, .stage = stage, .micro_batch = micro_batch});
    }
    kept_until_[stage][micro_batch] = kNever;
  }

  bool may_defer(std::size_t stage, double now) const {
    return std::ranges::count_if(kept_until_[stage], [&](double until) { return until > now; }) <
           most_kept_;
  }

  void compute_deferred(std::size_t device, double begin) {
    const auto chosen = oldest();
    const Deferred work = *chosen;
    deferred_.erase(chosen);
    occupy(device, begin, work.cost);
    const bool is_last = std::ranges::none_of(deferred_, [&](const Deferred& other) {
      return other.stage == work.stage && other.micro_batch == work.micro_batch;
    });
    if (is_last) kept_until_[work.stage][work.micro_batch] = free_at_[device];
  }

  void occupy(std::size_t device, double begin, double cost) {
    free_at_[device] = begin + cost;
    busy_ += cost;
  }

  const StageOrders& orders_;
  const std::vector<PassCosts>& costs_;
  const int most_kept_;
  Ends ends_;
  std::vector<std::size_t> next_;  // [device]
  std::vector<double> free_at_;    // [device]
  std::vector<Deferred> deferred_;
  std::vector<std::vector<double>> kept_until_;  // [stage][micro-batch]: its activations
  double busy_ = 0.0;
};

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

SimulatedStep simulate(const StageOrders& orders, const std::vector<PassCosts>& costs,
                       int deferred_micro_batches) {
  std::size_t chunks = 1;
  int micro_batches = 0;
  for (const auto& order : orders) {
    for (const StagePass& pass : order) {
      micro_batches = std::max(micro_batches, pass.micro_batch + 1);
      chunks = std::max(chunks, static_cast<std::size_t>(pass.chunk) + 1);
    }
  }
  check_argument(!orders.empty() && orders.size() * chunks == costs.size(), "There are costs of ",
                 costs.size(), " stages, and orders of ", orders.size() * chunks,
                 ": give one for each stage.");
  return Simulation(orders, costs, micro_batches, deferred_micro_batches).run();
}

}  // namespace brigade::concurrency
