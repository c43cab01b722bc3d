#include "brigade/concurrency/stage_recorder.h"

#include <algorithm>
#include <chrono>

namespace brigade::concurrency {

void StageRecorder::begin_work(int device, StageWork work, int micro_batch) {
  at(device).current = {.work = work,
                        .micro_batch = micro_batch,
                        .begin = std::chrono::steady_clock::now(),
                        .end = {}};
}

void StageRecorder::end_work(int device) {
  StageSpan& current = at(device).current;
  current.end = std::chrono::steady_clock::now();
  at(device).spans.push_back(current);
}

void StageRecorder::switch_work(int device, StageWork work, int micro_batch) {
  end_work(device);
  begin_work(device, work, micro_batch);
}

void StageRecorder::keep_activations(int device) {
  Device& keeper = at(device);
  keeper.peak = std::max(keeper.peak, ++keeper.kept);
}

StageOrders StageRecorder::passes() const {
  StageOrders all;
  for (const Device& device : devices_) all.push_back(device.passes);
  return all;
}

StageTimeline StageRecorder::timeline() const {
  StageTimeline timeline;
  for (const Device& device : devices_) timeline.stages.push_back(device.spans);
  return timeline;
}

std::vector<int> StageRecorder::peak_micro_batches() const {
  std::vector<int> peaks;
  for (const Device& device : devices_) peaks.push_back(device.peak);
  return peaks;
}

}  // namespace brigade::concurrency
