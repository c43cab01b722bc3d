#pragma once

#include <cstdint>
#include <vector>

#include "brigade/concurrency/stage_timeline.h"
#include "brigade/summary/trace.h"

namespace brigade::train {

/// The passes of a pipeline's step (`PipelineStrategy::timeline`) as bars of a Chrome trace, with a
/// row for each stage: "forward 3" is the forward pass of micro-batch 3. They are grouped as
/// `group`, which stands where other events have their replica. `ProfilerHook` adds them to its
/// traces.
///
///   const auto events = trace_events(pipe.timeline());
///   summary::write_chrome_trace(*files, directory, step, events, trace_names(pipe.timeline()));
std::vector<summary::TraceEvent> trace_events(const concurrency::StageTimeline& timeline,
                                              std::int64_t group = 0);

/// The names of the rows of `trace_events`: "pipeline", and "stage 0" and so on.
summary::TraceNames trace_names(const concurrency::StageTimeline& timeline, std::int64_t group = 0);

}  // namespace brigade::train
