#include "brigade/comm/differentiable.h"

#include <ATen/ops/cat.h>

#include <unordered_set>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/autograd_function.h"

namespace brigade::comm {

namespace {

at::Tensor reduced_copy(Communicator& communicator, const at::Tensor& value, ReduceOp op) {
  const at::Tensor copy = value.detach().clone(at::MemoryFormat::Contiguous);
  communicator.all_reduce({&copy, 1}, op)->wait();
  return copy;
}

class AllReduceForward final : public device::AutogradFunction, public MayBeCollective {
 public:
  AllReduceForward(Communicator& communicator, ReduceOp op)
      : communicator_(communicator), op_(op) {}
  bool is_collective() const override { return true; }

 private:
  at::Tensor forward(const Tensors& inputs) override {
    return reduced_copy(communicator_, inputs[0], op_);
  }
  Tensors backward(const Tensors& gradients) override {
    return {reduced_copy(communicator_, gradients[0], op_)};
  }

  Communicator& communicator_;
  const ReduceOp op_;
};

at::Tensor joined(Communicator& communicator, const at::Tensor& value, std::int64_t axis) {
  const std::vector<at::Tensor> parts = communicator.all_gather(value);
  for (const at::Tensor& part : parts) {
    bool alike = part.dim() == value.dim();
    for (std::int64_t d = 0; alike && d < value.dim(); ++d)
      alike = d == axis || part.size(d) == value.size(d);
    check_argument(alike, base::str_cat("all_gather: shapes may differ on axis ", axis, " alone."));
  }
  return at::cat(parts, axis);
}

class AllGather final : public device::AutogradFunction, public MayBeCollective {
 public:
  AllGather(Communicator& communicator, std::int64_t axis)
      : communicator_(communicator), axis_(axis) {}
  bool is_collective() const override { return true; }

 private:
  at::Tensor forward(const Tensors& inputs) override {
    size_ = inputs[0].size(axis_);
    return joined(communicator_, inputs[0].detach(), axis_);
  }
  Tensors backward(const Tensors& gradients) override {
    const at::Tensor all = reduced_copy(communicator_, gradients[0], ReduceOp::kSum);
    const at::Tensor sizes = at::empty({1}, at::kLong).fill_(size_);
    std::int64_t begin = 0;
    const std::vector<at::Tensor> every = communicator_.all_gather(sizes);
    for (int rank = 0; rank < communicator_.rank(); ++rank)
      begin += every[rank].item<std::int64_t>();
    return {all.narrow(axis_, begin, size_)};
  }

  Communicator& communicator_;
  const std::int64_t axis_;
  std::int64_t size_ = 0;
};

class AllReduceGradient final : public device::AutogradFunction, public MayBeCollective {
 public:
  explicit AllReduceGradient(Communicator& communicator) : communicator_(communicator) {}
  bool is_collective() const override { return true; }

 private:
  at::Tensor forward(const Tensors& inputs) override { return inputs[0].clone(); }
  Tensors backward(const Tensors& gradients) override {
    return {reduced_copy(communicator_, gradients[0], ReduceOp::kSum)};
  }

  Communicator& communicator_;
};

bool is_collective(const torch::autograd::Node* node) {
  const auto* may_be = dynamic_cast<const MayBeCollective*>(node);
  return may_be != nullptr && may_be->is_collective();
}

}  // namespace

at::Tensor differentiable_all_reduce(Communicator& communicator, const at::Tensor& value,
                                     ReduceOp op) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return reduced_copy(communicator, value, op);
  return device::apply_function<AllReduceForward>({value}, communicator, op);
}

at::Tensor differentiable_all_gather(Communicator& communicator, const at::Tensor& value,
                                     std::int64_t axis) {
  check_argument(value.dim() > 0,
                 "all_gather: a scalar has no axis to join on; give it shape [1] first.");
  const std::int64_t wrapped = axis < 0 ? axis + value.dim() : axis;
  check_argument(wrapped >= 0 && wrapped < value.dim(),
                 base::str_cat("all_gather: axis ", axis, " does not exist in a tensor of ",
                               value.dim(), " dimensions."));
  return device::apply_function<AllGather>({value}, communicator, wrapped);
}

at::Tensor all_reduce_gradient(Communicator& communicator, const at::Tensor& value) {
  return device::apply_function<AllReduceGradient>({value}, communicator);
}

bool backward_is_collective(const at::Tensor& value) {
  if (!value.defined() || !value.requires_grad()) return false;
  std::vector<const torch::autograd::Node*> open = {value.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> seen = {nullptr};
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (is_collective(node)) return true;
    for (const torch::autograd::Edge& edge : node->next_edges())
      open.push_back(edge.function.get());
  }
  return false;
}

}  // namespace brigade::comm
