#include "brigade/layers/v1/loss_collection.h"

#include <ATen/ops/zeros.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers::v1::losses {
namespace {

/// The sum, on the first one's device.
at::Tensor sum_of(const std::vector<at::Tensor>& losses) {
  at::Tensor sum = losses.front();
  for (std::size_t i = 1; i < losses.size(); ++i) sum = sum + losses[i].to(sum.device());
  return sum;
}

}  // namespace

void add_loss(const at::Tensor& loss, const std::string& name) {
  check_argument(loss.defined(), "add_loss: the loss is an undefined tensor");
  variables::require_graph("add_loss").add_loss(name, loss);
}

std::vector<at::Tensor> get_losses(std::string_view scope) {
  return variables::require_graph("get_losses").losses(scope);
}

std::vector<at::Tensor> get_regularization_losses(std::string_view scope) {
  return variables::get_regularization_losses(scope);
}

at::Tensor get_regularization_loss(std::string_view scope) {
  const auto losses = get_regularization_losses(scope);
  return losses.empty() ? at::zeros({}) : sum_of(losses);
}

at::Tensor get_total_loss(const TotalLossOptions& options) {
  auto losses = get_losses(options.scope);
  if (options.add_regularization_losses) {
    const auto regularization = get_regularization_losses();
    losses.insert(losses.end(), regularization.begin(), regularization.end());
  }
  if (losses.empty()) {
    throw Error(ErrorCode::kFailedPrecondition,
                base::str_cat("get_total_loss: this pass has no loss in the scope '", options.scope,
                              "'; call a loss function or add_loss first"));
  }
  return sum_of(losses);
}

}  // namespace brigade::layers::v1::losses
