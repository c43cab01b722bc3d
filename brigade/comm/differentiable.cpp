#include "brigade/comm/differentiable.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

#include <unordered_set>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::comm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor reduced_copy(Communicator& communicator, const at::Tensor& value, ReduceOp op) {
  const at::Tensor copy = value.detach().clone(at::MemoryFormat::Contiguous);
  communicator.all_reduce({&copy, 1}, op)->wait();
  return copy;
}

std::int64_t as_int(const void* pointer) {
  return reinterpret_cast<std::int64_t>(pointer);
}

Communicator& communicator_of(AutogradContext* context) {
  return *reinterpret_cast<Communicator*>(context->saved_data["communicator"].toInt());
}

struct AllReduceForward : Function<AllReduceForward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            std::int64_t communicator, std::int64_t op) {
    context->saved_data["communicator"] = communicator;
    context->saved_data["op"] = op;
    return reduced_copy(communicator_of(context), value, static_cast<ReduceOp>(op));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto op = static_cast<ReduceOp>(context->saved_data["op"].toInt());
    return {reduced_copy(communicator_of(context), gradients[0], op), at::Tensor(), at::Tensor()};
  }
};

at::Tensor joined(Communicator& communicator, const at::Tensor& value, std::int64_t axis) {
  const std::vector<at::Tensor> parts = communicator.all_gather(value);
  for (const at::Tensor& part : parts) {
    bool alike = part.dim() == value.dim();
    for (std::int64_t d = 0; alike && d < value.dim(); ++d)
      alike = d == axis || part.size(d) == value.size(d);
    check_argument(alike, "all_gather: shapes may differ on axis ", axis, " alone.");
  }
  return at::cat(parts, axis);
}

struct AllGather : Function<AllGather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            std::int64_t communicator, std::int64_t axis) {
    context->saved_data["communicator"] = communicator;
    context->saved_data["axis"] = axis;
    context->saved_data["size"] = value.size(axis);
    return joined(communicator_of(context), value.detach(), axis);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    Communicator& communicator = communicator_of(context);
    const std::int64_t axis = context->saved_data["axis"].toInt();
    const std::int64_t size = context->saved_data["size"].toInt();
    const at::Tensor all = reduced_copy(communicator, gradients[0], ReduceOp::kSum);
    const at::Tensor sizes = at::empty({1}, at::kLong).fill_(size);
    std::int64_t begin = 0;
    const std::vector<at::Tensor> every = communicator.all_gather(sizes);
    for (int rank = 0; rank < communicator.rank(); ++rank)
      begin += every[rank].item<std::int64_t>();
    return {all.narrow(axis, begin, size), at::Tensor(), at::Tensor()};
  }
};

struct AllReduceGradient : Function<AllReduceGradient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            std::int64_t communicator) {
    context->saved_data["communicator"] = communicator;
    return value.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {reduced_copy(communicator_of(context), gradients[0], ReduceOp::kSum), at::Tensor()};
  }
};

template <class... Functions>
bool is_node_of(const torch::autograd::Node* node) {
  return (... || (dynamic_cast<const torch::autograd::CppNode<Functions>*>(node) != nullptr));
}

bool contains_collective(const torch::autograd::Node* node) {
  if (is_node_of<AllReduceForward, AllGather, AllReduceGradient>(node)) return true;
  const auto* inner = dynamic_cast<const MayBeCollective*>(node);
  return inner != nullptr && inner->is_collective();
}

}  // namespace

at::Tensor differentiable_all_reduce(Communicator& communicator, const at::Tensor& value,
                                     ReduceOp op) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return reduced_copy(communicator, value, op);
  return AllReduceForward::apply(value, as_int(&communicator), static_cast<std::int64_t>(op));
}

at::Tensor differentiable_all_gather(Communicator& communicator, const at::Tensor& value,
                                     std::int64_t axis) {
  check_argument(value.dim() > 0,
                 "all_gather: a scalar has no axis to join on; give it shape [1] first.");
  const std::int64_t wrapped = axis < 0 ? axis + value.dim() : axis;
  check_argument(wrapped >= 0 && wrapped < value.dim(), "all_gather: axis ", axis,
                 " does not exist in a tensor of ", value.dim(), " dimensions.");
  return AllGather::apply(value, as_int(&communicator), wrapped);
}

at::Tensor all_reduce_gradient(Communicator& communicator, const at::Tensor& value) {
  return AllReduceGradient::apply(value, as_int(&communicator));
}

bool backward_is_collective(const at::Tensor& value) {
  if (!value.defined() || !value.requires_grad()) return false;
  std::vector<const torch::autograd::Node*> open = {value.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> seen = {nullptr};
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (contains_collective(node)) return true;
    for (const torch::autograd::Edge& edge : node->next_edges())
      open.push_back(edge.function.get());
  }
  return false;
}

}  // namespace brigade::comm
