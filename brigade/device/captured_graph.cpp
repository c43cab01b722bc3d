#include "brigade/device/captured_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

namespace brigade::device {

namespace {

class CudaGraph final : public CapturedGraph {
 public:
  explicit CudaGraph(c10::Device device) : device_(device) {}

  // Other threads may use other streams meanwhile, and autograd's thread of the card this one.
  void begin(std::span<const at::Generator> random) override {
    const c10::cuda::CUDAGuard guard(device_);
    for (const at::Generator& each : random) {
      if (each.defined()) graph_.register_generator_state(each);
    }
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  }
  void end() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.capture_end();
  }
  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

 private:
  const c10::Device device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device device) {
  return device.is_cuda() ? std::make_unique<CudaGraph>(device) : nullptr;
}

bool is_capturing(c10::Device device) {
  if (!device.is_cuda()) return false;
  const c10::cuda::CUDAGuard guard(device);
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

}  // namespace brigade::device
