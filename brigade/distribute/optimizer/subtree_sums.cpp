#include "brigade/distribute/optimizer/subtree_sums.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
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

/// Adds `right` to `left` where that is possible, and lets go of what was added.
void add_into(std::vector<at::Tensor>& left, std::vector<at::Tensor>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!right[i].defined()) continue;
    if (!left[i].defined()) {
      left[i] = std::move(right[i]);
    } else if (is_alone(left[i])) {
      left[i].add_(right[i]);
    } else if (is_alone(right[i])) {
      left[i] = right[i].add_(left[i]);
    } else {
      left[i] = left[i].add(right[i]);
    }
    right[i].reset();
  }
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

std::vector<comm::LeafRange> SubtreeSums::path_to(const Device& device,
                                                  comm::LeafRange node) const {
  std::vector<comm::LeafRange> path = {device.block};
  while (path.back() != node) {
    const auto [left, right] = comm::ReductionTree::children(path.back());
    path.push_back(node.begin < right.begin ? left : right);
  }
  return path;
}

void SubtreeSums::begin(int replica) {
  added_[static_cast<std::size_t>(replica)].clear();
}

bool SubtreeSums::is_last(int replica) const {
  Device& device = *device_of_[static_cast<std::size_t>(replica)];
  const std::lock_guard lock(device.mutex);
  int waiting = 0;
  for (const Partial& partial : device.partials) waiting += partial.node.size();
  return waiting == device.block.size() - 1;
}

// The sum moves up the tree with the list in which it is; the positions below become undefined, so
// that `merge` adds nothing to it again. A replica that waited may have been released by an error:
// then its part of the sum is missing, and the step fails.
at::Tensor SubtreeSums::add_one(int replica, std::size_t variable, const at::Tensor& gradient) {
  if (!is_added_early(gradient)) return {};
  const at::NoGradGuard no_grad;
  Device& device = *device_of_[static_cast<std::size_t>(replica)];
  const int leaf = range_.first + replica;
  const std::lock_guard lock(device.mutex);
  const std::vector<comm::LeafRange> path = path_to(device, {leaf, leaf + 1});
  if (path.size() == 1) return gradient;
  at::Tensor* sum = nullptr;  // in a list of a replica that waits
  for (std::size_t depth = path.size() - 1; depth > 0; --depth) {
    const auto [left, right] = comm::ReductionTree::children(path[depth - 1]);
    const comm::LeafRange sibling = path[depth] == left ? right : left;
    const auto found = std::ranges::find(device.partials, sibling, &Partial::node);
    if (found == device.partials.end()) return {};
    at::Tensor& other = (*found->values)[variable];
    const at::Tensor& term = sum == nullptr ? gradient : *sum;
    if (!other.defined()) {
      other = term;
    } else if (is_alone(other)) {
      other.add_(term);
    } else {
      other = other.add(term);
    }
    if (sum != nullptr) sum->reset();
    sum = &other;
  }
  std::vector<bool>& added = added_[static_cast<std::size_t>(replica)];
  if (added.size() <= variable) added.resize(variable + 1);
  added[variable] = true;
  return *sum;
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
  if (adds) merge(device, {.node = {leaf, leaf + 1}, .values = &gradients});
  try {
    group_->barrier(replica);
  } catch (...) {
    forget(device, &gradients);
    throw;
  }
  forget(device, &gradients);
  return gradients;
}

void SubtreeSums::merge(Device& device, Partial partial) const {
  const std::lock_guard lock(device.mutex);
  // From the root down to the node: its parents.
  std::vector<comm::LeafRange> path = {{0, range_.total}};
  while (path.back() != partial.node) {
    const auto [left, right] = comm::ReductionTree::children(path.back());
    path.push_back(partial.node.begin < right.begin ? left : right);
  }
  for (path.pop_back(); !path.empty(); path.pop_back()) {
    const auto [left, right] = comm::ReductionTree::children(path.back());
    const bool is_left = partial.node == left;
    const auto found = std::ranges::find(device.partials, is_left ? right : left, &Partial::node);
    if (found == device.partials.end()) break;
    std::vector<at::Tensor>* const sum = is_left ? partial.values : found->values;
    add_into(*sum, is_left ? *found->values : *partial.values);
    partial = {.node = path.back(), .values = sum};
    device.partials.erase(found);
  }
  device.partials.push_back(partial);
}

void SubtreeSums::forget(Device& device, const std::vector<at::Tensor>* values) {
  const std::lock_guard lock(device.mutex);
  std::erase_if(device.partials, [&](const Partial& each) { return each.values == values; });
}

}  // namespace brigade::distribute
