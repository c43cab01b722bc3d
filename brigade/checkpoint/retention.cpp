#include "brigade/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "brigade/base/error.h"

namespace brigade::checkpoint {
namespace {

std::set<std::int64_t> best(std::span<const Candidate> whole, const BestOf& rule) {
  std::vector<std::pair<double, std::int64_t>> ranked;  // smaller is better
  for (const Candidate& each : whole) {
    const auto metric = each.metrics.find(rule.metric);
    if (metric == each.metrics.end() || std::isnan(metric->second)) continue;
    ranked.emplace_back(rule.best == BestIs::kLowest ? metric->second : -metric->second,
                        -each.number);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > rule.count) ranked.resize(rule.count);
  std::set<std::int64_t> numbers;
  for (const auto& [value, negative_number] : ranked) numbers.insert(-negative_number);
  return numbers;
}

}  // namespace

KeptMark next_mark(const KeptMark& before, std::int64_t step, std::chrono::milliseconds now,
                   const KeepEvery& keep_every) {
  KeptMark mark = before;
  // Training that began again from an earlier step counts from there.
  mark.last_step = std::min(mark.last_step, step);
  const bool by_steps = keep_every.steps && step - mark.last_step >= *keep_every.steps;
  const bool by_time = keep_every.time && now - mark.last_time >= *keep_every.time;
  mark.is_kept = by_steps || by_time;
  if (mark.is_kept) {
    mark.last_step = step;
    mark.last_time = now;
  }
  return mark;
}

std::vector<std::int64_t> to_remove(std::span<const Candidate> whole, const SaverOptions& options) {
  if (options.keep_last == 0 || whole.size() <= options.keep_last) return {};
  std::set<std::int64_t> kept;
  if (options.best_of) kept = best(whole, *options.best_of);
  std::vector<std::int64_t> numbers;
  for (const Candidate& each : whole.first(whole.size() - options.keep_last)) {
    if (!each.is_kept && !kept.contains(each.number)) numbers.push_back(each.number);
  }
  return numbers;
}

void validate(const SaverOptions& options) {
  using base::str_cat;
  check_argument(!options.directory.empty(),
                 "SaverOptions: directory is empty; name the folder to save into");
  check_argument(options.shards >= 1 && options.shards <= 1000, "SaverOptions: shards is ",
                 options.shards, "; expected 1 to 1000");
  check_argument(!options.keep_every.steps || *options.keep_every.steps >= 1,
                 "SaverOptions: keep_every.steps must be at least 1; leave it out to keep none");
  check_argument(!options.keep_every.time || options.keep_every.time->count() >= 1,
                 "SaverOptions: keep_every.time must be positive; leave it out to keep none");
  check_argument(
      !options.best_of || (!options.best_of->metric.empty() && options.best_of->count > 0),
      "SaverOptions: best_of needs a metric's name and a count of at least 1");
}

}  // namespace brigade::checkpoint
