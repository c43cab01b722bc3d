#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::layers {

/// A part of a forward pass.
using TensorFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// `recompute` of a function with any number of tensors.
std::vector<at::Tensor> recompute_list(TensorFunction function,
                                       const std::vector<at::Tensor>& inputs);

/// How `recompute` handles what a function returns: a tensor, a vector of tensors, or a pair, tuple
/// or array of them.
template <class Result>
struct TensorResult {
  static std::vector<at::Tensor> to_list(Result result) {
    return std::apply([](auto&... each) { return std::vector<at::Tensor>{std::move(each)...}; },
                      result);
  }
  static Result from_list(std::vector<at::Tensor> list) {
    return from(std::move(list), std::make_index_sequence<std::tuple_size_v<Result>>());
  }

 private:
  template <std::size_t... I>
  static Result from(std::vector<at::Tensor> list, std::index_sequence<I...>) {
    return Result{std::move(list[I])...};
  }
};
template <>
struct TensorResult<at::Tensor> {
  static std::vector<at::Tensor> to_list(at::Tensor result) { return {std::move(result)}; }
  static at::Tensor from_list(std::vector<at::Tensor> list) { return std::move(list.front()); }
};
template <>
struct TensorResult<std::vector<at::Tensor>> {
  static std::vector<at::Tensor> to_list(std::vector<at::Tensor> result) { return result; }
  static std::vector<at::Tensor> from_list(std::vector<at::Tensor> list) { return list; }
};

/// `function(inputs...)`, without keeping what backward needs of it: backward calls the function a
/// second time, with the same inputs. So the activations inside exist only while this part of the
/// network is computed, which saves memory at the price of a second forward pass of this part. Use
/// it for parts of a network whose activations do not fit into memory: for blocks of a deep one, of
/// which about the square root of their number is best (`models::Sequential::recompute_every`).
///
///   for (const Block& block : blocks) x = layers::recompute(block, x);  // a module, or a function
///
/// Values and gradients have the bits of `function(inputs...)` itself, as long as no tensor from
/// outside is used by several calls of `recompute` and a call more than once: then the order in
/// which the parts of its gradient are added differs.
///
/// The second call happens where the first one was, though on one of autograd's threads: with the
/// same random numbers, replica, variable scopes, device and argument scopes, and autocast. What
/// the function does besides computing its results counts once: updates of statistics (batch norm,
/// of libtorch as well), losses and end points. Of libtorch's modules outside of a strategy,
/// `num_batches_tracked` counts twice.
///
/// Variables and tensors that the function uses without getting them as inputs receive their
/// gradients. The function is copied and lives until backward, so what it refers to must live as
/// long. Inputs need not require gradients. While no gradients are recorded the function is simply
/// called. Calls may be nested.
///
/// The function must compute the same both times: from its inputs, and from variables that nobody
/// changes in between. It must not change its inputs in place. If it contains collectives (batch
/// norm over the global batch), the second call makes them again, which all replicas do in the same
/// order; on GPUs such a function is refused with kUnimplemented.
///
/// Backward throws kUnimplemented if its gradients are to be differentiated again (create_graph),
/// kFailedPrecondition if the second results are not like the first ones, if a variable has changed
/// in between, if the run of the strategy in which the function was called has ended, or if it ran
/// before without `retain_graph`; and what the second call throws. PyTorch:
/// torch.utils.checkpoint.
///
/// Thread-safety: as of an ordinary operation.
template <class Function, std::convertible_to<at::Tensor>... Inputs>
auto recompute(Function function, const Inputs&... inputs) {
  using Result = std::remove_cvref_t<std::invoke_result_t<Function&, const Inputs&...>>;
  const auto call = [function = std::move(function)](const std::vector<at::Tensor>& list) mutable {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return TensorResult<Result>::to_list(function(list[I]...));
    }
    (std::index_sequence_for<Inputs...>());
  };
  return TensorResult<Result>::from_list(recompute_list(call, {inputs...}));
}

}  // namespace brigade::layers
