#pragma once

#include <memory>
#include <span>
#include <utility>

#include "brigade/device/captured_graph.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::device::testing {

/// For tests: a captured graph of the fake device. Like a CUDA graph it reads and writes the memory
/// that was there at the capture, refuses waits of the host, and draws new random numbers.
class RecordedGraph final : public CapturedGraph {
 public:
  void begin(std::span<const at::Generator>) override { FakeDevice::get().begin_capture(); }
  void end() override { recording_ = FakeDevice::get().end_capture(); }
  void replay() override { FakeDevice::get().replay(*recording_); }

 private:
  std::shared_ptr<const StreamRecording> recording_;
};

inline std::unique_ptr<CapturedGraph> make_recorded_graph(c10::Device device) {
  return device.is_privateuseone() ? std::make_unique<RecordedGraph>() : nullptr;
}

}  // namespace brigade::device::testing
