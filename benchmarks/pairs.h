#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/measure.h"

namespace brigade::benchmarks {

struct PairOptions {
  int pairs = 30;
  int steps = 20;  ///< a block
};

struct CostOfPair {
  Cost subject, base;
};

struct Ratios {
  std::vector<double> wall;
  std::vector<double> cpu;

  void add(const CostOfPair& cost) {
    wall.push_back(cost.subject.wall_seconds / cost.base.wall_seconds);
    cpu.push_back(cost.subject.cpu_seconds / cost.base.cpu_seconds);
  }
};

/// Every other pair starts with the subject, so that drift favors neither.
template <class Subject, class Base>
CostOfPair cost_of_pair(int pair, const Subject& subject, const Base& base) {
  CostOfPair cost;
  if (pair % 2 == 1) cost.subject = subject();
  cost.base = base();
  if (pair % 2 == 0) cost.subject = subject();
  return cost;
}

/// `, "median": ...` and so on: the estimates of the ratios, as fields of a JSON object.
inline std::string ratio_fields(const Ratios& ratios) {
  const auto wall = estimate(ratios.wall), cpu = estimate(ratios.cpu);
  std::ostringstream text;
  text << ", \"median\": " << wall.median << ", \"low\": " << wall.low
       << ", \"high\": " << wall.high << ", \"cpu_median\": " << cpu.median
       << ", \"cpu_low\": " << cpu.low << ", \"cpu_high\": " << cpu.high;
  return text.str();
}

/// Adds `pairs` ratios of the subject's cost over the base's.
template <class Subject, class Base>
void compare_built(Subject& subject, Base& base, const PairOptions& options, Ratios& ratios) {
  for (int i = 0; i < 2; ++i) {  // warm both up: caches, thread pools, chosen kernels
    subject.run(options.steps);
    base.run(options.steps);
  }
  for (int pair = 0; pair < options.pairs; ++pair) {
    ratios.add(cost_of_pair(
        pair, [&] { return cost_of_block(subject, options.steps); },
        [&] { return cost_of_block(base, options.steps); }));
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
