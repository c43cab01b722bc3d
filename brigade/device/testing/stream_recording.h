#pragma once

#include <c10/core/Stream.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "brigade/device/testing/deferred_calls.h"

namespace brigade::device::testing {

/// For tests: the work of one capture of the fake device. It begins on one stream, its origin, and
/// others join it when they wait for an event that was recorded in it, as CUDA's streams do.
///
/// Thread-safety: one thread at a time.
class StreamRecording {
 public:
  using StreamId = c10::StreamId;
  /// How much work of each stream comes before a point.
  using Clock = std::map<StreamId, std::size_t>;
  /// A point of a stream's work: after its first `position` steps, which come after `before`.
  struct Point {
    StreamId stream = 0;
    std::size_t position = 0;
    Clock before = {};
  };
  struct Step {
    StreamId stream = 0;
    DeferredCalls::MakeAct make;  // or none:
    Point waits_for = {};
  };

  explicit StreamRecording(StreamId origin) : origin_(origin) {}

  StreamId origin() const { return origin_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Whether nothing can be captured any more.
  bool has_ended() const { return has_ended_; }
  void end() { has_ended_ = true; }

  void add(StreamId stream, DeferredCalls::MakeAct make) {
    steps_.push_back({stream, std::move(make)});
    ++clocks_[stream][stream];
  }
  Point end_of(StreamId stream) { return {stream, clocks_[stream][stream], clocks_[stream]}; }
  /// What `stream` does from now on comes after `point`.
  void wait(StreamId stream, const Point& point) {
    if (stream == point.stream) return;
    steps_.push_back({stream, nullptr, point});
    Clock& clock = clocks_[stream];
    for (const auto& [other, position] : point.before)
      clock[other] = std::max(clock[other], position);
    ++clock[stream];
  }
  /// Whether the origin waits for all work of all streams.
  bool is_joined() {
    return std::ranges::all_of(clocks_, [this](const auto& each) {
      return clocks_[origin_][each.first] >= each.second.at(each.first);
    });
  }

 private:
  const StreamId origin_;
  std::vector<Step> steps_;
  std::map<StreamId, Clock> clocks_;  // of what comes before the next step of each stream
  bool has_ended_ = false;
};

}  // namespace brigade::device::testing
