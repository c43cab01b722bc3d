// The members of Strategy that combine the replicas' values into one.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

namespace {

bool differ_only_on_axis(const at::Tensor& a, const at::Tensor& b, std::int64_t axis) {
  const std::int64_t wrapped = axis < 0 ? axis + b.dim() : axis;
  bool alike = a.dim() == b.dim() && wrapped >= 0 && wrapped < b.dim();
  for (std::int64_t d = 0; alike && d < b.dim(); ++d)
    alike = d == wrapped || a.size(d) == b.size(d);
  return alike;
}

/// In a replica, `value` would be the replica's own, and workers would exchange several times.
void check_outside_replica(std::string_view call) {
  check_state(in_cross_replica_context(), "Strategy::", call,
              " was called inside a replica: call it with what Strategy::run returned, or use "
              "ReplicaContext::all_reduce and all_gather.");
}

void check_defined(std::string_view call, const PerReplica<at::Tensor>& value) {
  for (std::size_t replica = 0; replica < value.size(); ++replica) {
    check_argument(value[replica].defined() || (replica > 0 && value.is_empty(replica)), call,
                   ": the value of replica ", replica,
                   " is an undefined tensor; return a tensor from the step.");
  }
}

/// [replica of this process]: its value on the first replica's device; undefined if it had no
/// examples. (All are defined if the numbers of examples are not known.)
std::vector<at::Tensor> values_with_examples(const PerReplica<at::Tensor>& value) {
  std::vector<at::Tensor> values(value.size());
  for (std::size_t replica = 0; replica < value.size(); ++replica) {
    if (!value.is_empty(replica)) values[replica] = value[replica].detach().to(value[0].device());
  }
  return values;
}

void check_same_shapes(std::span<const at::Tensor> values) {
  const auto first = std::ranges::find_if(values, &at::Tensor::defined);
  for (const at::Tensor& value : values) {
    if (!value.defined()) continue;
    check_argument(value.sizes() == first->sizes(), "reduce: the replicas' values have shapes ",
                   first->sizes(), " and ", value.sizes(),
                   "; give an axis to reduce over it, or use gather.");
  }
}

at::ScalarType floating(at::ScalarType dtype) {
  return at::isFloatingType(dtype) ? dtype : at::kDouble;
}

/// Converts `value` to the dtype in which `op` accumulates.
at::Tensor summand(comm::ReduceOp op, const at::Tensor& value) {
  const at::ScalarType dtype = value.scalar_type();
  return value.to(comm::accumulation_dtype(op == comm::ReduceOp::kMean ? floating(dtype) : dtype));
}

std::int64_t total_of(const WorkerGroup* workers, std::int64_t own) {
  return workers ? comm::all_reduce_number(*workers->communicator, own, comm::ReduceOp::kSum) : own;
}

}  // namespace

std::int64_t Strategy::broadcast_from_chief(std::int64_t value) const {
  if (!workers()) return value;
  const at::Tensor sent = at::full({1}, value, at::kLong);
  workers()->communicator->broadcast({&sent, 1}, 0)->wait();
  return sent.item<std::int64_t>();
}

std::string Strategy::broadcast_from_chief(const std::string& value) const {
  if (!workers()) return value;
  return comm::all_gather_texts(*workers()->communicator, value).front();
}

at::Tensor Strategy::gather_workers(const at::Tensor& values) const {
  if (!replica_workers()) return values;
  return at::cat(replica_workers()->communicator->all_gather(values.contiguous()), 0);
}

std::int64_t Strategy::all_reduce_max(std::int64_t value) const {
  if (!workers()) return value;
  return comm::all_reduce_number(*workers()->communicator, value, comm::ReduceOp::kMax);
}

std::int64_t Strategy::agree_on_stop(std::int64_t request) const {
  if (!workers()) return request;
  const comm::PurposeScope purpose(&workers()->communicator->progress(),
                                   {.use = comm::CallPurpose::Use::kStop});
  return all_reduce_max(request);
}

std::shared_ptr<comm::PiggybackNumber> Strategy::piggyback(comm::PiggybackUse use,
                                                           comm::PiggybackNumber::Own own) const {
  if (!workers()) return nullptr;
  return workers()->communicator->piggyback(use, std::move(own));
}

/// Adds this worker's values ([replica], undefined: nothing) and the other workers'. The sum is
/// like `like`.
at::Tensor Strategy::sum_over_replicas(std::vector<at::Tensor> values,
                                       const at::Tensor& like) const {
  return comm::sum_over_replicas(
             replica_workers() ? replica_workers()->communicator.get() : nullptr,
             replica_workers() ? replica_workers()->layout : comm::ProcessLayout{}, {&values, 1},
             {&like, 1})
      .front();
}

at::Tensor Strategy::reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value) const {
  check_outside_replica("reduce");
  check_defined("reduce", value);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts = values_with_examples(value);
  check_same_shapes(parts);
  const auto own = std::ranges::count_if(parts, &at::Tensor::defined);
  const std::int64_t all = total_of(replica_workers(), own);
  check_state(all > 0, "reduce: no replica had examples, so there is nothing to reduce.");
  const bool is_extreme = op == comm::ReduceOp::kMax || op == comm::ReduceOp::kMin;
  if (is_extreme) return extreme_of(op, parts, value[0]);
  for (at::Tensor& part : parts) {
    if (part.defined()) part = summand(op, part);
  }
  const at::Tensor sum = sum_over_replicas(std::move(parts), summand(op, value[0].detach()));
  const at::ScalarType dtype = value[0].scalar_type();
  if (op == comm::ReduceOp::kSum) return sum.to(dtype);
  return sum.div_(static_cast<double>(all)).to(floating(dtype));
}

/// A worker whose replicas had no examples contributes an empty tensor, which is left out.
at::Tensor Strategy::extreme_of(comm::ReduceOp op, const std::vector<at::Tensor>& parts,
                                const at::Tensor& like) const {
  at::Tensor own = comm::combine_by_tree(parts, op);
  if (!replica_workers()) return own;
  if (!own.defined()) own = like.detach().flatten().narrow(0, 0, 0);
  std::vector<at::Tensor> all = replica_workers()->communicator->all_gather(own.contiguous());
  if (like.numel() > 0)
    std::erase_if(all, [](const at::Tensor& each) { return each.numel() == 0; });
  return comm::combine_by_tree(all, op);
}

at::Tensor Strategy::reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value,
                            std::int64_t axis) const {
  check_outside_replica("reduce");
  check_defined("reduce", value);
  const at::NoGradGuard no_grad;
  check_argument(op == comm::ReduceOp::kSum || op == comm::ReduceOp::kMean,
                 "reduce: with an axis the operation is sum or mean, not ", comm::to_string(op),
                 ".");
  std::vector<at::Tensor> sums;
  std::int64_t own = 0;
  for (const at::Tensor& part : value.values()) {
    check_argument(part.dim() > 0, "reduce: a scalar has no axis; call reduce without an axis.");
    check_argument(axis >= -part.dim() && axis < part.dim(), "reduce: axis ", axis,
                   " does not exist in a value of shape ", part.sizes(), ".");
    const at::Tensor wide = comm::to_accumulation_dtype(part.detach().to(value[0].device()));
    sums.push_back(wide.sum(axis));
    own += part.size(axis);
  }
  const at::Tensor like = sums.front();
  const at::Tensor sum = sum_over_replicas(std::move(sums), like);
  const at::ScalarType dtype = value[0].scalar_type();
  const at::ScalarType result = at::isFloatingType(dtype) ? dtype : sum.scalar_type();
  if (op == comm::ReduceOp::kSum) return sum.to(result);
  const std::int64_t elements = total_of(replica_workers(), own);
  check_state(elements > 0, "reduce: no replica had elements, so there is no mean.");
  return sum.to(floating(sum.scalar_type()))
      .div(static_cast<double>(elements))
      .to(floating(result));
}

at::Tensor Strategy::reduce_mean_over_examples(const PerReplica<at::Tensor>& means) const {
  check_outside_replica("reduce_mean_over_examples");
  check_defined("reduce_mean_over_examples", means);
  const at::NoGradGuard no_grad;
  check_state(means.examples().has_value() || num_replicas_in_sync() == 1,
              "reduce_mean_over_examples: the replicas' numbers of examples are not known: they "
              "come with a batch of "
              "Strategy::distribute.");
  if (num_replicas_in_sync() == 1) return means[0].detach().clone();
  check_state(means.examples()->global > 0, "reduce_mean_over_examples: no replica had examples.");
  std::vector<at::Tensor> weighted(means.size());
  for (std::size_t replica = 0; replica < means.size(); ++replica) {
    if (means.is_empty(replica)) continue;
    const double weight = static_cast<double>(means.examples()->local[replica]) /
                          static_cast<double>(means.examples()->global);
    const at::Tensor mean = means[replica].detach().to(means[0].device());
    weighted[replica] = comm::to_accumulation_dtype(mean).mul(weight);
  }
  // Times 1, as integers become floating means too.
  const at::Tensor like = comm::to_accumulation_dtype(means[0].detach()).mul(1.0);
  const at::Tensor sum = sum_over_replicas(std::move(weighted), like);
  const at::ScalarType dtype = means[0].scalar_type();
  return at::isFloatingType(dtype) ? sum.to(dtype) : sum;
}

at::Tensor Strategy::reduce_loss(const PerReplica<StepLoss>& losses) const {
  check_outside_replica("reduce_loss");
  if (losses[0].global().defined()) return losses[0].global();
  const at::NoGradGuard no_grad;
  check_state(!losses.examples() || losses.examples()->global > 0,
              "reduce_loss: no replica had examples.");
  if (num_replicas_in_sync() == 1) return losses[0].with_sum(losses[0].part().clone()).global();
  std::vector<at::Tensor> parts;
  for (const StepLoss& each : losses.values())
    parts.push_back(each.part().to(losses[0].local().device()));
  const at::Tensor like = parts.front();
  return losses[0].with_sum(sum_over_replicas(std::move(parts), like)).global();
}

at::Tensor Strategy::reduce(comm::ReduceOp op, const at::Tensor& value) const {
  check_argument(op != comm::ReduceOp::kSum || num_replicas_in_sync() == 1,
                 "reduce: a value that is not distributed cannot be summed over ",
                 num_replicas_in_sync(),
                 " replicas: return it from Strategy::run, or take its mean.");
  return value;
}

at::Tensor Strategy::gather(const PerReplica<at::Tensor>& value, std::int64_t axis) const {
  check_outside_replica("gather");
  check_defined("gather", value);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : value.values()) {
    check_argument(part.dim() > 0,
                   "gather: a scalar has no axis to concatenate along; give it shape [1] first.");
    check_argument(differ_only_on_axis(part, value[0], axis),
                   "gather: the replicas' values have shapes ", value[0].sizes(), " and ",
                   part.sizes(), ", which may differ only on axis ", axis, ".");
    parts.push_back(part.detach().to(value[0].device()));
  }
  const at::Tensor own = at::cat(parts, axis);
  if (!replica_workers()) return own;
  return at::cat(replica_workers()->communicator->all_gather(own.contiguous()), axis);
}

}  // namespace brigade::distribute
