#include "brigade/distribute/strategies/pipeline_cut.h"

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <limits>
#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/stage_partition.h"

namespace brigade::distribute {

namespace {

using concurrency::PassCosts;
using concurrency::StageOrders;

/// What stages cost: the sums over their layers.
class Stages {
 public:
  explicit Stages(const CutProblem& problem)
      : layers_(problem.layers),
        orders_(concurrency::stage_orders(problem.schedule, problem.stages, problem.micro_batches)),
        deferred_(problem.deferred_micro_batches),
        kept_(concurrency::simulate(
                  orders_, std::vector<PassCosts>(static_cast<std::size_t>(problem.stages)))
                  .peak_micro_batches) {
    for (int& kept : kept_) kept = std::min(kept + deferred_, problem.micro_batches);
  }

  StageCost of(int stage, std::size_t begin, std::size_t end) const {
    StageCost sum{.first_layer = layers_[begin].name};
    for (std::size_t i = begin; i < end; ++i) {
      sum.forward_seconds += layers_[i].forward_seconds;
      sum.backward_seconds += layers_[i].backward_seconds;
      if (deferred_ > 0) sum.weight_gradient_seconds += layers_[i].weight_gradient_seconds;
      sum.bytes += kept_[static_cast<std::size_t>(stage)] * layers_[i].activation_bytes +
                   layers_[i].variable_bytes;
    }
    return sum;
  }
  std::vector<StageCost> of(const std::vector<std::size_t>& begins) const {
    std::vector<StageCost> stages;
    for (std::size_t s = 0; s < begins.size(); ++s)
      stages.push_back(of(static_cast<int>(s), begins[s], end_of(begins, s)));
    return stages;
  }
  double step_seconds(const std::vector<std::size_t>& begins, double besides) const {
    std::vector<PassCosts> passes;
    for (const StageCost& stage : of(begins)) {
      passes.push_back({.forward = stage.forward_seconds,
                        .backward = stage.backward_seconds,
                        .weight_gradients = {}});
    }
    for (std::size_t s = 0; s < begins.size(); ++s) {
      for (std::size_t i = begins[s]; i < end_of(begins, s); ++i) {
        const double seconds = layers_[i].weight_gradient_seconds;
        if (seconds > 0.0) passes[s].weight_gradients.push_back(seconds);
      }
    }
    return concurrency::simulate(orders_, passes, deferred_).duration +
           besides / static_cast<double>(begins.size());
  }

 private:
  std::size_t end_of(const std::vector<std::size_t>& begins, std::size_t stage) const {
    return stage + 1 < begins.size() ? begins[stage + 1] : layers_.size();
  }

  const std::vector<LayerCost>& layers_;
  const StageOrders orders_;
  const int deferred_;
  std::vector<int> kept_;  // [stage]: micro-batches
};

/// Which of a stage's costs must be equal in all: if gradients of weights may be left to others,
/// the rest is what a stage alone can compute.
enum class Balanced { kAll, kAllButWeightGradients };

double seconds_of(const StageCost& stage, Balanced balanced) {
  return balanced == Balanced::kAll
             ? stage.seconds()
             : std::max(0.0, stage.seconds() - stage.weight_gradient_seconds);
}

std::vector<std::size_t> partition(const CutProblem& problem, const Stages& stages,
                                   Balanced balanced) {
  if (problem.bytes_per_stage == 0) {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < problem.layers.size(); ++i)
      seconds.push_back(seconds_of(stages.of(0, i, i + 1), balanced));
    return concurrency::partition_by_cost(seconds, problem.stages);
  }
  const auto within = [&](int stage, std::size_t begin, std::size_t end) {
    const StageCost cost = stages.of(stage, begin, end);
    return cost.bytes <= problem.bytes_per_stage ? seconds_of(cost, balanced)
                                                 : std::numeric_limits<double>::infinity();
  };
  return concurrency::partition_by_cost(problem.layers.size(), problem.stages, within);
}

std::vector<std::size_t> best_partition(const CutProblem& problem, const Stages& stages) {
  std::vector<std::size_t> all = partition(problem, stages, Balanced::kAll);
  if (problem.deferred_micro_batches == 0) return all;
  std::vector<std::size_t> rest = partition(problem, stages, Balanced::kAllButWeightGradients);
  return stages.step_seconds(rest, 0.0) < stages.step_seconds(all, 0.0) ? rest : all;
}

std::int64_t most_bytes(const std::vector<StageCost>& stages) {
  return std::ranges::max_element(stages, {}, &StageCost::bytes)->bytes;
}

void check_bytes(const CutProblem& problem, const Stages& stages,
                 const std::vector<StageCost>& chosen) {
  if (problem.bytes_per_stage == 0 || most_bytes(chosen) <= problem.bytes_per_stage) return;
  const auto bytes = [&](int stage, std::size_t begin, std::size_t end) {
    return static_cast<double>(stages.of(stage, begin, end).bytes);
  };
  const std::vector<StageCost> least =
      stages.of(concurrency::partition_by_cost(problem.layers.size(), problem.stages, bytes));
  throw Error(ErrorCode::kResourceExhausted, "No cut into ", problem.stages,
              " stages keeps each within ", problem.bytes_per_stage,
              " bytes (AutomaticCut::bytes_per_stage): the largest stage needs ", most_bytes(least),
              " at least. Allow more, use more devices, or more micro-batches.");
}

std::string milliseconds(double seconds) {
  std::ostringstream text;
  const double value = 1e3 * seconds;
  text << std::fixed << std::setprecision(value < 100.0 ? 1 : 0) << value << " ms";
  return text.str();
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& parts) {
  if (parts.size() == 1) return parts.front();
  return base::str_cat(base::join(std::vector<std::string>(parts.begin(), parts.end() - 1), ", "),
                       " and ", parts.back());
}

std::vector<std::string> names_of(const std::vector<LayerCost>& layers) {
  std::vector<std::string> names;
  for (const LayerCost& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace

void check_layers(const std::vector<std::string>& layers, int stages) {
  const std::string named = layers.empty()
                                ? std::string("none")
                                : base::str_cat(layers.size(), ": ", base::join(layers, ", "));
  check_argument(stages <= static_cast<int>(layers.size()), "A pipeline of ", stages,
                 " stages needs as many layers, and the model names ", named,
                 ". Use fewer devices, or let the model's forward pass call begin_layer(name, x) "
                 "before more of its layers.");
}

ChosenCut choose_cut(const CutProblem& problem) {
  check_layers(names_of(problem.layers), problem.stages);
  const Stages stages(problem);
  const std::vector<std::size_t> begins = best_partition(problem, stages);
  ChosenCut chosen{.layers = {}, .stages = stages.of(begins), .layer_costs = problem.layers};
  check_bytes(problem, stages, chosen.stages);
  for (std::size_t s = 1; s < chosen.stages.size(); ++s)
    chosen.layers.push_back(chosen.stages[s].first_layer);
  chosen.step_seconds = stages.step_seconds(begins, problem.seconds_besides);
  return chosen;
}

std::string to_string(const ChosenCut& cut) {
  std::vector<std::string> times, shared;
  bool any_shared = false;
  for (const StageCost& stage : cut.stages) {
    times.push_back(milliseconds(stage.seconds()));
    shared.push_back(milliseconds(stage.weight_gradient_seconds));
    any_shared |= stage.weight_gradient_seconds > 0.0;
  }
  const std::string where =
      cut.layers.empty() ? "not cut" : base::str_cat("cut before ", listed(cut.layers));
  return base::str_cat(where, cut.stages.size() == 1 ? ": a stage of " : ": stages of ",
                       listed(times), " per micro-batch",
                       any_shared && cut.stages.size() > 1
                           ? base::str_cat(" (", listed(shared), " of it on any idle stage)")
                           : "",
                       "; predicted step ", milliseconds(cut.step_seconds));
}

}  // namespace brigade::distribute
