#include "brigade/train/graph/stage_trace.h"

#include "brigade/base/strings.h"

namespace brigade::train {

std::vector<summary::TraceEvent> trace_events(const concurrency::StageTimeline& timeline,
                                              std::int64_t group) {
  std::vector<summary::TraceEvent> events;
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    for (const concurrency::StageSpan& span : timeline.stages[stage]) {
      const std::string work(to_string(span.work));
      events.push_back({.name = base::str_cat(work, " ", span.micro_batch),
                        .category = work,
                        .begin = span.begin.time_since_epoch(),
                        .duration = span.end - span.begin,
                        .replica = group,
                        .thread = static_cast<std::int64_t>(stage),
                        .args = {{"micro_batch", std::int64_t{span.micro_batch}}}});
    }
  }
  return events;
}

summary::TraceNames trace_names(const concurrency::StageTimeline& timeline, std::int64_t group) {
  summary::TraceNames names;
  names.replicas[group] = "pipeline";
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage)
    names.threads[{group, static_cast<std::int64_t>(stage)}] = base::str_cat("stage ", stage);
  return names;
}

}  // namespace brigade::train
