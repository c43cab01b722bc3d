#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// For tests: one flat parameter with its slots, updated by a rule.
struct UpdateRuleHarness {
  UpdateRuleHarness(UpdateRulePtr the_rule, const at::Tensor& initial)
      : rule(std::move(the_rule)), parameter(initial.clone()) {
    for (const SlotSpec& spec : rule->slots())
      slots.push_back(at::zeros_like(parameter).fill_(spec.initial));
  }

  /// One update, split into ranges at `cuts` (ascending, inside the parameter), with a separate
  /// call for each.
  void step(const at::Tensor& gradient, const std::vector<std::int64_t>& cuts = {}) {
    ++steps;
    std::int64_t begin = 0;
    for (std::size_t piece = 0; piece <= cuts.size(); ++piece) {
      const std::int64_t end = piece < cuts.size() ? cuts[piece] : parameter.numel();
      const auto range = [&](const at::Tensor& t) { return t.narrow(0, begin, end - begin); };
      UpdateArguments arguments{
          .parameters = {range(parameter)}, .gradients = {range(gradient)}, .step = steps};
      for (const at::Tensor& slot : slots) arguments.slots.push_back({range(slot)});
      rule->apply(arguments, rule->defaults());
      begin = end;
    }
  }

  UpdateRulePtr rule;
  at::Tensor parameter;
  std::vector<at::Tensor> slots;
  std::int64_t steps = 0;
};

/// The norm of the difference, relative to the norm of `b`.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// Whether ten steps of `rule` give the same bits, parameter and slots, for one range and for many
/// ranges.
inline bool bits_do_not_depend_on_cuts(const UpdateRulePtr& rule, at::ScalarType dtype) {
  constexpr std::int64_t kSize = 1'000;
  const at::Tensor initial = at::rand({kSize}, dtype) - 0.5;
  UpdateRuleHarness whole(rule, initial);
  UpdateRuleHarness pieces(rule, initial);
  for (int step = 0; step < 10; ++step) {
    const at::Tensor gradient = at::rand({kSize}, dtype) - 0.5;
    whole.step(gradient);
    pieces.step(gradient, {1, 16, 45, 64, 250, 272, 995});
  }
  bool same = whole.parameter.equal(pieces.parameter);
  for (std::size_t slot = 0; slot < whole.slots.size(); ++slot)
    same = same && whole.slots[slot].equal(pieces.slots[slot]);
  return same;
}

}  // namespace brigade::optim
