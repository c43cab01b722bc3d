#include "brigade/data/runtime/stage_stats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr double kBusy = 0.7;    // from here on a step is called the bottleneck
constexpr double kMuch = 0.2;    // fraction of time without a core that is reported
constexpr double kStall = 0.02;  // a consumer that waits less keeps its input busy

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, digits);
  return std::string(text.data(), end.ptr);
}

std::string percent(double fraction) {
  return fixed(100 * fraction, fraction < 0.0995 ? 1 : 0) + " %";
}

std::string rate(double per_second) {
  return fixed(per_second, per_second < 10 ? 1 : 0);
}

using Row = std::array<std::string, 8>;

Row row_of(const StageStats& step) {
  const bool has_threads = step.threads > 0;
  return {step.name,
          base::str_cat(step.elements),
          rate(step.elements_per_second),
          has_threads ? base::str_cat(step.threads) : "-",
          has_threads ? base::str_cat(fixed(step.queue_depth, 1), "/", step.capacity) : "-",
          percent(step.busy),
          has_threads ? percent(step.stall) : "-",
          percent(step.starved)};
}

// The first column is left-aligned, the numbers right-aligned.
std::string line_of(const Row& row, const std::array<std::size_t, 8>& widths) {
  std::string line = row[0] + std::string(widths[0] - row[0].size(), ' ');
  for (std::size_t i = 1; i < row.size(); ++i) {
    line += "  " + std::string(widths[i] - row[i].size(), ' ') + row[i];
  }
  return line + "\n";
}

std::string threads_of(const StageStats& step) {
  if (step.threads == 0) return "busy ";
  if (step.threads == 1) return "1 thread busy ";
  return base::str_cat(step.threads, " threads busy ");
}

}  // namespace

std::string bottleneck(std::span<const StageStats> stats) {
  if (stats.empty()) return "no step was measured";
  const auto last = std::find_if(stats.rbegin(), stats.rend(),
                                 [](const StageStats& step) { return step.threads > 0; });
  if (last != stats.rend() && last->stall < kStall) {
    return base::str_cat("the input keeps up: its consumer waited ", percent(last->stall),
                         " of the time");
  }
  // Time without a core does not count: the step that works most delays the others.
  const auto works = [](const StageStats& step) { return step.busy - step.delayed; };
  const auto first = std::ranges::max_element(stats, {}, works);
  const double delayed = std::ranges::max_element(stats, {}, &StageStats::delayed)->delayed;
  std::string text =
      base::str_cat(first->name, first->busy < kBusy ? " works most" : " is the bottleneck", ": ",
                    threads_of(*first), percent(first->busy));
  if (delayed >= kMuch) return text + "; no core free " + percent(delayed) + " of the time";
  return first->busy < kBusy ? text + "; threads wait for each other" : text;
}

std::string describe(std::span<const StageStats> stats) {
  std::vector<Row> rows{
      {"step", "elements", "per second", "threads", "ready", "busy", "stall", "starved"}};
  for (const StageStats& step : stats) rows.push_back(row_of(step));
  std::array<std::size_t, 8> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) text += line_of(row, widths);
  return text + bottleneck(stats) + "\n";
}

}  // namespace brigade::data
