#include "brigade/concurrency/stage_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "brigade/base/error.h"

namespace brigade::concurrency {

namespace {

/// The fewest stages of which none costs more than `most`.
std::vector<std::size_t> greedy_partition(const std::vector<double>& costs, double most) {
  std::vector<std::size_t> begins = {0};
  double sum = 0.0;
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    const bool is_full = layer > begins.back() && sum + costs[layer] > most;
    if (is_full) {
      begins.push_back(layer);
      sum = 0.0;
    }
    sum += costs[layer];
  }
  return begins;
}

void check_stages(std::size_t layers, int stages) {
  check_argument(stages >= 1 && static_cast<std::size_t>(stages) <= layers, "A model of ", layers,
                 " layers cannot be cut into ", stages, " stages: each needs at least one layer.");
}

}  // namespace

std::vector<std::size_t> partition_by_cost(const std::vector<double>& costs, int stages) {
  check_stages(costs.size(), stages);
  for (const double cost : costs) {
    check_argument(std::isfinite(cost) && cost >= 0.0, "The cost of a layer is ", cost,
                   "; costs are 0 or more.");
  }
  // best[layer]: the cheapest most expensive stage of the first `layer` layers in so many stages.
  // Sums are made as `greedy_partition` makes them, so that both compare the same numbers.
  const std::size_t layers = costs.size();
  std::vector<double> best(layers + 1, std::numeric_limits<double>::infinity());
  best[0] = 0.0;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<double> longer(layers + 1, std::numeric_limits<double>::infinity());
    for (std::size_t begin = 0; begin < layers; ++begin) {
      double sum = 0.0;
      for (std::size_t end = begin + 1; end <= layers; ++end) {
        sum += costs[end - 1];
        longer[end] = std::min(longer[end], std::max(best[begin], sum));
      }
    }
    best = std::move(longer);
  }
  std::vector<std::size_t> begins = greedy_partition(costs, best[layers]);
  // Fewer stages than asked for suffice: single layers of the end make the others.
  for (std::size_t layer = layers; begins.size() < static_cast<std::size_t>(stages);) {
    --layer;
    const auto at = std::lower_bound(begins.begin(), begins.end(), layer);
    if (at == begins.end() || *at != layer) begins.insert(at, layer);
  }
  return begins;
}

std::vector<std::size_t> partition_by_cost(std::size_t layers, int stages,
                                           const StageCostFunction& cost) {
  check_stages(layers, stages);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // begins[s][end]: where stage s begins if it ends there, and the stages up to it are cheapest.
  std::vector<std::vector<std::size_t>> begins;
  std::vector<double> best(layers + 1, kInfinity);
  best[0] = 0.0;
  for (int stage = 0; stage < stages; ++stage) {
    const auto first = static_cast<std::size_t>(stage);  // each stage before it has a layer
    std::vector<double> longer(layers + 1, kInfinity);
    std::vector<std::size_t>& begin_of = begins.emplace_back(layers + 1, first);
    for (std::size_t begin = first; begin < (stage == 0 ? 1 : layers); ++begin) {
      for (std::size_t end = begin + 1; end <= layers; ++end) {
        const double most = std::max(best[begin], cost(stage, begin, end));
        if (most > longer[end] || most == kInfinity) continue;
        longer[end] = most;
        begin_of[end] = begin;  // of equal ones the last, so that early stages are long
      }
    }
    best = std::move(longer);
  }
  std::vector<std::size_t> chosen;
  std::size_t end = layers;
  for (auto stage = static_cast<std::size_t>(stages); stage-- > 0;) {
    end = begins[stage][end];
    chosen.insert(chosen.begin(), end);
  }
  return chosen;
}

}  // namespace brigade::concurrency
