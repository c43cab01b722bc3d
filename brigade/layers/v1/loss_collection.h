#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

/// The losses of one pass through a model, and their sum.
namespace brigade::layers::v1::losses {

/// Adds a loss to those of the open graph, under the open name scope. TensorFlow:
/// tf.losses.add_loss. Throws kFailedPrecondition without a graph.
void add_loss(const at::Tensor& loss, const std::string& name = "loss");

/// The losses of this pass whose name begins with `scope`, such as "tower_0". TensorFlow:
/// tf.losses.get_losses. Throws kFailedPrecondition without a graph.
std::vector<at::Tensor> get_losses(std::string_view scope = "");

/// The regularizers' values of all variables whose name begins with `scope`, each once. In a
/// replica, of its own components. TensorFlow: tf.losses.get_regularization_losses.
std::vector<at::Tensor> get_regularization_losses(std::string_view scope = "");
/// Their sum; 0 if there are none.
at::Tensor get_regularization_loss(std::string_view scope = "");

struct TotalLossOptions {
  bool add_regularization_losses = true;
  /// Selects losses whose name begins with it. Regularization losses belong to variables, which the
  /// towers share, and are counted for any scope.
  std::string scope = {};
};
/// The sum of the losses and of the regularization losses, a scalar. Every tower's total includes
/// all regularization losses; if the towers' gradients are averaged, as in the strategies, they
/// count once. Code that sums the towers must add them to one tower only. TensorFlow:
/// tf.losses.get_total_loss. Throws kFailedPrecondition if there are no losses.
at::Tensor get_total_loss(const TotalLossOptions& options = {});

}  // namespace brigade::layers::v1::losses
