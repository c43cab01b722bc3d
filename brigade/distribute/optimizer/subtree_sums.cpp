#include "brigade/distribute/optimizer/subtree_sums.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <bit>
#include <map>

#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::distribute {

namespace {

bool is_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

bool is_added_early(const at::Tensor& gradient) {
  return gradient.layout() == at::kStrided &&
         comm::accumulation_dtype(gradient.scalar_type()) == gradient.scalar_type();
}

/// Undefined ones count as zero.
at::Tensor add_two(at::Tensor left, at::Tensor right) {
  if (!right.defined()) return left;
  if (!left.defined()) return right;
  if (is_alone(left)) return left.add_(right);
  if (is_alone(right)) return right.add_(left);
  return left.add(right);
}

at::Tensor add_in_pairs(std::vector<at::Tensor> parts, const comm::ReductionTree& tree) {
  std::vector<at::Tensor> stack;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    stack.push_back(std::move(parts[part]));
    for (int i = 0; i < tree.additions_after(part); ++i) {
      at::Tensor right = std::move(stack.back());
      stack.pop_back();
      stack.back() = add_two(std::move(stack.back()), std::move(right));
    }
  }
  return std::move(stack.front());
}

/// In one pass over memory. The sum may be made in the first part that is defined, since a block
/// of it is read before a block of the sum is written.
at::Tensor add_at_once(std::vector<at::Tensor> parts, const comm::ReductionTree& tree) {
  constexpr std::int64_t kGrain = 32 * 1024;
  const at::Tensor& first = *std::ranges::find_if(parts, &at::Tensor::defined);
  at::Tensor sum = is_alone(first) ? first : at::empty_like(first);
  at::parallel_for(0, sum.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    comm::add_by_tree(parts, tree, begin, end, sum, begin);
  });
  return sum;
}

/// The sum of `parts`, in place if nobody else refers to the tensor; undefined if all are.
at::Tensor sum_of(std::vector<at::Tensor> parts, const comm::ReductionTree& tree) {
  const auto first = std::ranges::find_if(parts, &at::Tensor::defined);
  if (first == parts.end()) return {};
  if (std::ranges::count_if(parts, &at::Tensor::defined) == 1) return std::move(*first);
  const bool at_once = first->is_cpu() &&
                       (first->scalar_type() == at::kFloat || first->scalar_type() == at::kDouble);
  return at_once ? add_at_once(std::move(parts), tree) : add_in_pairs(std::move(parts), tree);
}

bool contains(comm::LeafRange outer, comm::LeafRange inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

SubtreeSums::SubtreeSums(std::shared_ptr<comm::LocalGroup> group, ReplicaRange range,
                         const std::vector<int>& slots)
    : group_(std::move(group)), range_(range) {
  std::map<int, Device*> by_slot;
  for (const int slot : slots) {
    Device*& device = by_slot[slot];
    const int leaf = range_.first + static_cast<int>(device_of_.size());
    if (device == nullptr) {
      device = devices_.emplace_back(std::make_unique<Device>()).get();
      device->block.begin = leaf;
    }
    device->block.end = leaf + 1;
    device_of_.push_back(device);
  }
  added_.resize(slots.size());
}

bool SubtreeSums::devices_are_subtrees() const {
  return std::ranges::all_of(devices_, [&](const auto& device) {
    return comm::ReductionTree::whole_subtrees(range_.total, device->block).size() == 1;
  });
}

void SubtreeSums::begin(int replica) {
  added_[static_cast<std::size_t>(replica)].clear();
}

bool SubtreeSums::is_last(int replica) const {
  Device& device = *device_of_[static_cast<std::size_t>(replica)];
  const std::lock_guard lock(device.mutex);
  return leaves_in(device) == device.block.size() - 1;
}

int SubtreeSums::leaves_in(const Device& device) {
  int leaves = 0;
  for (const Partial& partial : device.partials) leaves += partial.node.size();
  return leaves;
}

// The sum is in the list of a replica that waits, and the other positions become undefined, so that
// nobody adds to it again. A replica that waited may have been released by an error: then its part
// of the sum is missing, and the step fails.
at::Tensor SubtreeSums::add_one(int replica, std::size_t variable, const at::Tensor& gradient) {
  if (!is_added_early(gradient)) return {};
  const at::NoGradGuard no_grad;
  Device& device = *device_of_[static_cast<std::size_t>(replica)];
  const comm::LeafRange own{range_.first + replica, range_.first + replica + 1};
  const std::lock_guard lock(device.mutex);
  if (device.block == own) return gradient;
  if (leaves_in(device) != device.block.size() - 1) return {};
  std::vector<at::Tensor> gradients(variable + 1);
  gradients[variable] = gradient;
  std::vector<Partial> all = device.partials;
  insert(all, {.node = own, .values = &gradients});
  const at::Tensor sum = sums_of(all, device.block, variable, variable + 1).front();
  (*device.partials.front().values)[variable] = sum;
  std::vector<bool>& added = added_[static_cast<std::size_t>(replica)];
  if (added.size() <= variable) added.resize(variable + 1);
  added[variable] = true;
  return sum;
}

void SubtreeReadyListener::ready(int replica, std::size_t variable, const at::Tensor& gradient) {
  const at::Tensor sum = sums_.add_one(replica, variable, gradient);
  if (sum.defined()) listener_.ready(replica, variable, sum);
}

std::vector<at::Tensor> SubtreeSums::add(int replica, std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  Device& device = *device_of_[static_cast<std::size_t>(replica)];
  std::vector<bool>& added = added_[static_cast<std::size_t>(replica)];
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (added[i]) gradients[i].reset();
  }
  added.clear();
  const bool adds = std::ranges::all_of(
      gradients, [](const at::Tensor& each) { return !each.defined() || is_added_early(each); });
  const int leaf = range_.first + replica;
  if (adds) wait_with(device, {.node = {leaf, leaf + 1}, .values = &gradients});
  try {
    group_->barrier(replica);
  } catch (...) {
    forget(device, &gradients);
    throw;
  }
  forget(device, &gradients);
  return gradients;
}

void SubtreeSums::insert(std::vector<Partial>& partials, const Partial& partial) {
  const auto next = std::ranges::find_if(
      partials, [&](const Partial& other) { return other.node.begin > partial.node.begin; });
  partials.insert(next, partial);
}

/// The sums of the variables [first, last), which become undefined in the lists. `partials` have
/// all leaves of `node`.
std::vector<at::Tensor> SubtreeSums::sums_of(std::span<const Partial> partials,
                                             comm::LeafRange node, std::size_t first,
                                             std::size_t last) {
  std::vector<comm::LeafRange> nodes;
  for (const Partial& partial : partials)
    nodes.push_back({partial.node.begin - node.begin, partial.node.end - node.begin});
  const comm::ReductionTree tree(node.size(), std::move(nodes));
  std::vector<at::Tensor> sums;
  for (std::size_t variable = first; variable < last; ++variable) {
    std::vector<at::Tensor> parts;
    for (const Partial& partial : partials) parts.push_back(std::move((*partial.values)[variable]));
    sums.push_back(sum_of(std::move(parts), tree));
  }
  return sums;
}

/// Adds the sums that wait, where they are those of all leaves of a node: of `node`, or of nodes
/// below it.
void SubtreeSums::add_complete(Device& device, comm::LeafRange node) {
  const auto inside = [&](const Partial& partial) { return contains(node, partial.node); };
  const auto first = std::ranges::find_if(device.partials, inside);
  const auto last = std::find_if_not(first, device.partials.end(), inside);
  if (last - first < 2) return;
  int leaves = 0;
  for (auto each = first; each != last; ++each) leaves += each->node.size();
  if (leaves < node.size()) {
    const auto [left, right] = comm::ReductionTree::children(node);
    add_complete(device, left);
    return add_complete(device, right);
  }
  *first->values = sums_of({first, last}, node, 0, first->values->size());
  first->node = node;
  device.partials.erase(first + 1, last);
}

void SubtreeSums::wait_with(Device& device, const Partial& partial) const {
  const std::lock_guard lock(device.mutex);
  insert(device.partials, partial);
  if (leaves_in(device) == device.block.size()) return;  // nobody computes more gradients
  const int levels = std::bit_width(static_cast<unsigned>(device.block.size() - 1));
  if (std::ssize(device.partials) > levels + 1) add_complete(device, {0, range_.total});
}

void SubtreeSums::forget(Device& device, const std::vector<at::Tensor>* values) {
  const std::lock_guard lock(device.mutex);
  std::erase_if(device.partials, [&](const Partial& each) { return each.values == values; });
}

}  // namespace brigade::distribute
