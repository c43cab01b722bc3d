#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "brigade/comm/stage_passes.h"
#include "brigade/distribute/pipeline/stage_cut.h"

namespace brigade::distribute {

/// A module for each stage of a pipeline, one after another; made by `PipelineStrategy::stages`.
/// Its submodules are called "0", "1", ..., as those of a torch::nn::Sequential. Under another
/// strategy it computes the same in one go.
///
/// Thread-safety: as a module: one thread at a time.
template <class... Modules>
class StageSequence : public torch::nn::Module {
 public:
  explicit StageSequence(std::shared_ptr<Modules>... modules) : modules_(std::move(modules)...) {
    register_all(std::index_sequence_for<Modules...>());
  }

  auto forward(const at::Tensor& inputs) {
    return forward_from<0>(comm::begin_layer(stage_layer(0), inputs));
  }

 private:
  static constexpr std::size_t kStages = sizeof...(Modules);

  template <std::size_t... I>
  void register_all(std::index_sequence<I...>) {
    (register_module(std::to_string(I), std::get<I>(modules_)), ...);
  }

  template <std::size_t Stage>
  auto forward_from(const at::Tensor& x) {
    if constexpr (Stage + 1 == kStages) {
      return std::get<Stage>(modules_)->forward(x);
    } else {
      using Result = std::decay_t<decltype(std::get<Stage>(modules_)->forward(x))>;
      static_assert(std::is_same_v<Result, at::Tensor>,
                    "Each module but the last returns one tensor, which the next one takes.");
      const at::Tensor result = std::get<Stage>(modules_)->forward(x);
      return forward_from<Stage + 1>(comm::begin_layer(stage_layer(Stage + 1), result));
    }
  }

  std::tuple<std::shared_ptr<Modules>...> modules_;
};

}  // namespace brigade::distribute
