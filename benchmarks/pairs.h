#pragma once

#include <algorithm>
#include <vector>

#include "benchmarks/measure.h"

namespace brigade::benchmarks {

struct PairOptions {
  int pairs = 30;
  int steps = 20;  ///< a block
};

struct Ratios {
  std::vector<double> wall;
  std::vector<double> cpu;
};

/// Adds `pairs` ratios of the subject's cost over the base's. Every other pair starts with the
/// subject, so that drift favors neither.
template <class Subject, class Base>
void compare_built(Subject& subject, Base& base, const PairOptions& options, Ratios& ratios) {
  for (int i = 0; i < 2; ++i) {  // warm both up: caches, thread pools, chosen kernels
    subject.run(options.steps);
    base.run(options.steps);
  }
  for (int pair = 0; pair < options.pairs; ++pair) {
    Cost over, under;
    if (pair % 2 == 0) {
      under = cost_of_block(base, options.steps);
      over = cost_of_block(subject, options.steps);
    } else {
      over = cost_of_block(subject, options.steps);
      under = cost_of_block(base, options.steps);
    }
    ratios.wall.push_back(over.wall_seconds / under.wall_seconds);
    ratios.cpu.push_back(over.cpu_seconds / under.cpu_seconds);
  }
}

/// Ratios over several builds of both loops, in alternating order: the addresses of a loop's memory
/// change its time by a few per cent, which would otherwise count as a difference.
template <class MakeSubject, class MakeBase>
Ratios compare(const MakeSubject& make_subject, const MakeBase& make_base,
               const PairOptions& options) {
  constexpr int kPairsABuild = 5;
  Ratios ratios;
  for (int done = 0; done < options.pairs; done += kPairsABuild) {
    const PairOptions now{.pairs = std::min(kPairsABuild, options.pairs - done),
                          .steps = options.steps};
    if (done / kPairsABuild % 2 == 0) {
      auto subject = make_subject();
      auto base = make_base();
      compare_built(*subject, *base, now, ratios);
    } else {
      auto base = make_base();
      auto subject = make_subject();
      compare_built(*subject, *base, now, ratios);
    }
  }
  return ratios;
}

}  // namespace brigade::benchmarks
