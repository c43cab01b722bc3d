#include "brigade/concurrency/stage_timeline.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::concurrency {

namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kDigits = 10;
constexpr int kLetters = 26;

bool is_counted(const StageSpan& span) {
  return span.work != StageWork::kOther;
}

/// The first begin and the last end of work that counts.
std::optional<std::pair<Time, Time>> extent_of(const StageTimeline& timeline) {
  std::optional<std::pair<Time, Time>> extent;
  for (const auto& spans : timeline.stages) {
    for (const StageSpan& span : spans) {
      if (!is_counted(span)) continue;
      if (!extent) extent = {span.begin, span.end};
      extent->first = std::min(extent->first, span.begin);
      extent->second = std::max(extent->second, span.end);
    }
  }
  return extent;
}

char symbol_of(const StageSpan& span) {
  switch (span.work) {
    case StageWork::kForward:
      return static_cast<char>('0' + span.micro_batch % kDigits);
    case StageWork::kBackward:
      return static_cast<char>('a' + span.micro_batch % kLetters);
    case StageWork::kWeightGradient:
      return static_cast<char>('A' + span.micro_batch % kLetters);
    case StageWork::kSum:
      return '+';
    case StageWork::kOther:
      break;
  }
  return '.';
}

std::string two_digits(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

}  // namespace

std::string_view to_string(StageWork work) {
  switch (work) {
    case StageWork::kForward:
      return "forward";
    case StageWork::kBackward:
      return "backward";
    case StageWork::kWeightGradient:
      return "weight gradient";
    case StageWork::kSum:
      return "sum";
    case StageWork::kOther:
      return "other";
  }
  return "unknown";
}

std::chrono::nanoseconds StageTimeline::duration() const {
  const auto extent = extent_of(*this);
  return extent ? extent->second - extent->first : std::chrono::nanoseconds(0);
}

std::vector<double> StageTimeline::bubbles() const {
  const auto whole = static_cast<double>(duration().count());
  std::vector<double> bubbles;
  for (const auto& spans : stages) {
    std::chrono::nanoseconds busy{0};
    for (const StageSpan& span : spans) {
      if (is_counted(span)) busy += span.end - span.begin;
    }
    bubbles.push_back(whole > 0.0 ? 1.0 - static_cast<double>(busy.count()) / whole : 0.0);
  }
  return bubbles;
}

double StageTimeline::bubble() const {
  const std::vector<double> of_stages = bubbles();
  if (of_stages.empty()) return 0.0;
  return std::accumulate(of_stages.begin(), of_stages.end(), 0.0) /
         static_cast<double>(of_stages.size());
}

// A column has the symbol of the pass that was computed in its middle.
std::string StageTimeline::text(int columns) const {
  check_argument(columns >= 1, "StageTimeline::text: columns is ", columns,
                 "; it must be at least 1.");
  const auto extent = extent_of(*this);
  const std::vector<double> of_stages = bubbles();
  const std::size_t width = std::to_string(stages.size()).size();
  std::string text;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::string row(static_cast<std::size_t>(columns), '.');
    for (int column = 0; extent && column < columns; ++column) {
      const Time middle = extent->first + duration() * (2 * column + 1) / (2 * columns);
      for (const StageSpan& span : stages[stage]) {
        if (is_counted(span) && span.begin <= middle && middle < span.end)
          row[static_cast<std::size_t>(column)] = symbol_of(span);
      }
    }
    std::string number = std::to_string(stage);
    number.insert(0, width - number.size(), ' ');
    text +=
        base::str_cat("stage ", number, "  ", row, "  bubble ", two_digits(of_stages[stage]), "\n");
  }
  const double milliseconds = std::chrono::duration<double, std::milli>(duration()).count();
  text +=
      base::str_cat(two_digits(milliseconds), " ms, bubble ", two_digits(bubble()),
                    "; digits: forward, letters: backward, capitals: weight gradients, +: sums, "
                    "dots: waiting\n");
  return text;
}

}  // namespace brigade::concurrency
