// The members of Strategy that make one value of the replicas' values.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/reduce_kernel.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

bool differ_on_axis_alone(const at::Tensor& a, const at::Tensor& b, std::int64_t axis) {
  const std::int64_t wrapped = axis < 0 ? axis + b.dim() : axis;
  bool alike = a.dim() == b.dim() && wrapped >= 0 && wrapped < b.dim();
  for (std::int64_t d = 0; alike && d < b.dim(); ++d)
    alike = d == wrapped || a.size(d) == b.size(d);
  return alike;
}

/// The values of replicas that had examples (all, if that is not known), on the first replica's
/// device.
std::vector<at::Tensor> meaningful(const PerReplica<at::Tensor>& value) {
  std::vector<at::Tensor> kept;
  for (std::size_t replica = 0; replica < value.size(); ++replica) {
    if (!value.is_empty(replica)) kept.push_back(value[replica].detach().to(value[0].device()));
  }
  check_state(!kept.empty(), "reduce: no replica had an example, so there is nothing to reduce.");
  return kept;
}

}  // namespace

at::Tensor Strategy::reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value) const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parts = meaningful(value);
  for (const at::Tensor& part : parts) {
    check_argument(part.sizes() == parts.front().sizes(),
                   base::str_cat("reduce: the replicas' values have shapes ",
                                 shape_text(parts.front()), " and ", shape_text(part),
                                 "; give an axis to reduce over it, or use gather."));
  }
  if (op != comm::ReduceOp::kMean || parts.front().is_floating_point())
    return comm::combine_in_order(parts, op);
  std::vector<at::Tensor> floating;
  for (const at::Tensor& part : parts) floating.push_back(part.to(at::kDouble));
  return comm::combine_in_order(floating, op);
}

at::Tensor Strategy::reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value,
                            std::int64_t axis) const {
  const at::NoGradGuard no_grad;
  check_argument(op == comm::ReduceOp::kSum || op == comm::ReduceOp::kMean,
                 base::str_cat("reduce: with an axis the operation is sum or mean, not ",
                               comm::to_string(op), "."));
  std::vector<at::Tensor> sums;
  std::int64_t elements = 0;
  for (const at::Tensor& part : value.values()) {
    check_argument(part.dim() > 0, "reduce: a scalar has no axis; leave the axis out.");
    check_argument(axis >= -part.dim() && axis < part.dim(),
                   base::str_cat("reduce: axis ", axis, " does not exist in a value of shape ",
                                 shape_text(part), "."));
    sums.push_back(part.detach().to(value[0].device()).sum(axis));
    elements += part.size(axis);
  }
  const at::Tensor sum = comm::combine_in_order(sums, comm::ReduceOp::kSum);
  if (op == comm::ReduceOp::kSum) return sum;
  check_state(elements > 0, "reduce: no replica had an element, so there is no mean.");
  return (sum.is_floating_point() ? sum : sum.to(at::kDouble)).div(static_cast<double>(elements));
}

at::Tensor Strategy::reduce_mean_over_examples(const PerReplica<at::Tensor>& means) const {
  const at::NoGradGuard no_grad;
  check_state(means.examples().has_value() || means.size() == 1,
              "reduce_mean_over_examples: the replicas' numbers of examples are not known: they "
              "come with a batch of "
              "Strategy::distribute.");
  if (means.size() == 1) return means[0].detach().clone();
  check_state(means.examples()->global > 0,
              "reduce_mean_over_examples: no replica had an example.");
  std::vector<at::Tensor> weighted;
  for (std::size_t replica = 0; replica < means.size(); ++replica) {
    if (means.is_empty(replica)) continue;
    const double share = static_cast<double>(means.examples()->local[replica]) /
                         static_cast<double>(means.examples()->global);
    weighted.push_back(means[replica].detach().to(means[0].device()).mul(share));
  }
  return comm::combine_in_order(weighted, comm::ReduceOp::kSum);
}

at::Tensor Strategy::reduce(comm::ReduceOp op, const at::Tensor& value) const {
  check_argument(op != comm::ReduceOp::kSum || num_replicas_in_sync() == 1,
                 base::str_cat("reduce: a value that is not distributed cannot be summed over ",
                               num_replicas_in_sync(),
                               " replicas: return it from Strategy::run, or take its mean."));
  return value;
}

at::Tensor Strategy::gather(const PerReplica<at::Tensor>& value, std::int64_t axis) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : value.values()) {
    check_argument(part.dim() > 0,
                   "gather: a scalar has no axis to join on; give it shape [1] first.");
    check_argument(
        differ_on_axis_alone(part, value[0], axis),
        base::str_cat("gather: the replicas' values have shapes ", shape_text(value[0]), " and ",
                      shape_text(part), ", which may differ on axis ", axis, " alone."));
    parts.push_back(part.detach().to(value[0].device()));
  }
  return at::cat(parts, axis);
}

}  // namespace brigade::distribute
