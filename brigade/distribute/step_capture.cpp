#include "brigade/distribute/step_capture.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/communicator.h"

namespace brigade::distribute {

namespace {

/// How the tensors of a call differ from those that were captured.
std::optional<std::string> difference(const std::vector<at::Tensor>& given,
                                      const std::vector<at::Tensor>& captured) {
  if (given.size() != captured.size()) {
    return base::str_cat("it has ", given.size(), " tensors and was captured with ",
                         captured.size());
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].sizes() == captured[i].sizes() && given[i].strides() == captured[i].strides() &&
        given[i].scalar_type() == captured[i].scalar_type() &&
        given[i].device() == captured[i].device())
      continue;
    return base::str_cat("its tensor ", i, " is ", comm::shape_of(given[i]), " on ",
                         given[i].device().str(), ", and the captured one ",
                         comm::shape_of(captured[i]), " on ", captured[i].device().str(),
                         " (or their strides differ)");
  }
  return std::nullopt;
}

}  // namespace

StepCapture::StepCapture(int warmup, device::GraphFactory make)
    : warmup_(warmup), make_(std::move(make)) {
  check_argument(warmup >= 1, "CompiledStepOptions::warmup is ", warmup,
                 "; at least one call must run before a capture.");
}

StepCapture::Next StepCapture::plan(const std::vector<at::Tensor>& given) {
  if (is_ruled_out_) return Next::kEager;
  if (calls_ < warmup_) {
    ++calls_;
    reason_ = base::str_cat("call ", calls_, " of ", warmup_, " before the capture");
    return Next::kEager;
  }
  if (graph_ != nullptr) {
    if (const auto found = difference(given, inputs_)) {
      reason_ = *found;
      return Next::kEager;
    }
  }
  const auto is_current = [](const HostWork& work) {
    return work.is_current == nullptr || work.is_current();
  };
  if (!std::ranges::all_of(host_work_, is_current)) forget();
  reason_.clear();
  return graph_ == nullptr ? Next::kCapture : Next::kReplay;
}

bool StepCapture::begin(c10::Device device, const std::vector<at::Tensor>& given,
                        std::span<const at::Generator> random) {
  graph_ = make_(device);
  if (graph_ == nullptr) {
    give_up(base::str_cat("this program captures nothing on ", device.str()));
    return false;
  }
  inputs_.clear();
  host_work_.clear();
  for (const at::Tensor& tensor : given) inputs_.push_back(tensor.detach().clone());
  graph_->begin(random);
  is_capturing_ = true;
  return true;
}

void StepCapture::end(std::vector<at::Tensor> results) {
  is_capturing_ = false;
  graph_->end();
  results_ = std::move(results);
}

std::vector<at::Tensor> StepCapture::replay(const std::vector<at::Tensor>& given) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < given.size(); ++i) inputs_[i].copy_(given[i], /*non_blocking=*/true);
  graph_->replay();
  std::vector<at::Tensor> copies;
  for (const at::Tensor& result : results_) copies.push_back(result.detach().clone());
  for (const HostWork& work : host_work_) work.after_replay();
  return copies;
}

void StepCapture::forget() noexcept {
  graph_.reset();
  inputs_.clear();
  results_.clear();
  host_work_.clear();
}

void StepCapture::give_up(const std::string& reason) noexcept {
  if (is_capturing_) {
    try {
      graph_->end();                   // otherwise the stream would stay in capture
    } catch (const std::exception&) {  // it says once more what has failed
    }
  }
  is_capturing_ = false;
  is_ruled_out_ = true;
  reason_ = reason;
  forget();
}

}  // namespace brigade::distribute
