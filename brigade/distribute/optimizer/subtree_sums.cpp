#include "brigade/distribute/optimizer/subtree_sums.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <utility>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/stage_passes.h"

namespace brigade::distribute {

namespace {

bool is_added_early(const at::Tensor& gradient) {
  return gradient.layout() == at::kStrided &&
         comm::accumulation_dtype(gradient.scalar_type()) == gradient.scalar_type();
}

/// Those that are deferred are dense.
bool is_added_early(const variables::GradientPart& gradient) {
  return !gradient.value.defined() || is_added_early(gradient.value);
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
  for (const auto& device : devices_)
    device->waiting.resize(static_cast<std::size_t>(device->block.size()));
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

bool SubtreeSums::shares_device(int replica) const {
  return device_of(replica).block.size() > 1;
}

bool SubtreeSums::is_last(int replica) const {
  Device& device = device_of(replica);
  const std::lock_guard lock(device.mutex);
  return !device.adding && leaves_in(device) == device.block.size() - 1;
}

int SubtreeSums::leaves_in(const Device& device) {
  int leaves = 0;
  for (const comm::LeafRange& set : device.sets) leaves += set.size();
  return leaves;
}

// The sum is in the list of a replica that waits, and the other positions become undefined, so that
// nobody adds to it again. A replica that waited may have been released by an error: then its part
// of the sum is missing, and the step fails.
at::Tensor SubtreeSums::add_one(int replica, std::size_t variable,
                                const variables::GradientPart& gradient) {
  if (!is_added_early(gradient)) return {};
  const at::NoGradGuard no_grad;
  Device& device = device_of(replica);
  const int leaf = leaf_of(replica);
  const std::lock_guard lock(device.mutex);
  if (device.block.size() == 1) return gradient.value;
  if (leaves_in(device) != device.block.size() - 1) return {};
  std::vector<variables::GradientPart> parts = take(device, device.block, variable);
  parts[static_cast<std::size_t>(leaf - device.block.begin)] = gradient;
  const at::Tensor sum = sum_of_parts(std::move(parts), comm::ReductionTree(device.block.size()));
  const auto first =
      std::ranges::find_if(device.waiting, [](auto* list) { return list != nullptr; });
  (**first)[variable].value = sum;
  std::vector<bool>& added = added_[static_cast<std::size_t>(replica)];
  if (added.size() <= variable) added.resize(variable + 1);
  added[variable] = true;
  return sum;
}

void SubtreeReadyListener::ready(int replica, std::size_t variable, const at::Tensor& gradient) {
  ready_part(replica, variable, {.value = gradient});
}

void SubtreeReadyListener::ready(int replica, std::size_t variable,
                                 const variables::DeferredGradientPtr& gradient) {
  ready_part(replica, variable, {.deferred = gradient});
}

void SubtreeReadyListener::ready_part(int replica, std::size_t variable,
                                      const variables::GradientPart& gradient) {
  const at::Tensor sum = sums_.add_one(replica, variable, gradient);
  if (sum.defined()) listener_.ready(replica, variable, sum);
}

std::vector<at::Tensor> SubtreeSums::add(int replica, std::vector<at::Tensor> gradients) {
  return add(replica, to_parts(std::move(gradients)));
}

std::vector<at::Tensor> SubtreeSums::add(int replica, ReplicaGradients gradients) {
  const at::NoGradGuard no_grad;
  Device& device = device_of(replica);
  std::vector<bool>& added = added_[static_cast<std::size_t>(replica)];
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (added[i]) gradients[i] = {};
  }
  added.clear();
  const bool adds = std::ranges::all_of(
      gradients, [](const variables::GradientPart& each) { return is_added_early(each); });
  const int leaf = leaf_of(replica);
  try {
    if (adds) wait_with(device, leaf, gradients);
    group_->barrier(replica);
  } catch (...) {
    forget(device, leaf);
    throw;
  }
  forget(device, leaf);
  return computed(std::move(gradients));  // deferred ones are left if a sibling adds nothing early
}

/// A variable's gradients in the leaves of `node`, which become undefined in the lists.
std::vector<variables::GradientPart> SubtreeSums::take(Device& device, comm::LeafRange node,
                                                       std::size_t variable) {
  std::vector<variables::GradientPart> parts;
  for (int leaf = node.begin; leaf < node.end; ++leaf) {
    ReplicaGradients* const list = device.list(leaf);
    parts.push_back(list != nullptr ? std::exchange((*list)[variable], {})
                                    : variables::GradientPart());
  }
  return parts;
}

/// Of the leaves of `node`, which all wait: in the list of the first one.
void SubtreeSums::add_variable(Device& device, comm::LeafRange node, std::size_t variable) {
  at::Tensor sum = sum_of_parts(take(device, node, variable), comm::ReductionTree(node.size()));
  (*device.list(node.begin))[variable].value = std::move(sum);
}

/// The same of all variables whose gradients are not small. Others help, with ranges of large ones,
/// and the device's other replicas may come meanwhile.
void SubtreeSums::add_variables(Device& device, comm::LeafRange node,
                                std::unique_lock<std::mutex>& lock) {
  struct Piece {
    std::size_t sum;
    int number;
  };
  std::vector<std::size_t> added;
  std::vector<std::unique_ptr<SumInPieces>> sums;
  std::vector<Piece> pieces;
  for (std::size_t variable = 0; variable < device.list(node.begin)->size(); ++variable) {
    if (are_small(device, node, variable)) continue;
    added.push_back(variable);
    sums.push_back(std::make_unique<SumInPieces>(take(device, node, variable),
                                                 comm::ReductionTree(node.size())));
    for (int i = 0; i < sums.back()->pieces(); ++i) pieces.push_back({sums.size() - 1, i});
  }
  device.adding = node;
  lock.unlock();
  try {
    comm::parallel_for(static_cast<int>(pieces.size()), [&](int i) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      sums[piece.sum]->make(piece.number);
    });
  } catch (...) {
    lock.lock();
    device.adding.reset();
    throw;
  }
  lock.lock();
  device.adding.reset();
  ReplicaGradients* const list = device.list(node.begin);
  if (list == nullptr) return;  // an error has released who waited
  for (std::size_t i = 0; i < sums.size(); ++i) (*list)[added[i]].value = sums[i]->take();
}

/// Whether the gradients of `node` are all deferred and take less memory than their sum.
bool SubtreeSums::are_small(const Device& device, comm::LeafRange node, std::size_t variable) {
  std::int64_t bytes = 0;
  std::int64_t bytes_of_sum = 0;
  for (int leaf = node.begin; leaf < node.end; ++leaf) {
    const variables::GradientPart& part = (*device.list(leaf))[variable];
    if (part.value.defined()) return false;
    if (!part.deferred) continue;
    bytes += part.deferred->bytes();
    bytes_of_sum = static_cast<std::int64_t>(part.deferred->variable().nbytes());
  }
  return bytes <= bytes_of_sum;
}

/// Adds the gradients that wait, where they are those of all leaves of a node: of `node`, or of
/// nodes below it.
void SubtreeSums::add_complete(Device& device, comm::LeafRange node,
                               std::unique_lock<std::mutex>& lock) {
  const auto inside = [&](comm::LeafRange set) { return contains(node, set); };
  const auto first = std::ranges::find_if(device.sets, inside);
  const auto last = std::find_if_not(first, device.sets.end(), inside);
  if (last - first < 2) return;
  int leaves = 0;
  for (auto each = first; each != last; ++each) leaves += each->size();
  if (leaves < node.size()) {
    const auto [left, right] = comm::ReductionTree::children(node);
    add_complete(device, left, lock);
    return add_complete(device, right, lock);
  }
  *first = node;
  device.sets.erase(first + 1, last);
  add_variables(device, node, lock);
}

/// When all replicas of the device wait: makes values of what is deferred.
void SubtreeSums::add_deferred(Device& device) const {
  const std::size_t variables = device.waiting.front()->size();
  for (const comm::LeafRange node :
       comm::ReductionTree::whole_subtrees(range_.total, device.block)) {
    for (std::size_t variable = 0; variable < variables; ++variable) {
      bool is_deferred = false;
      for (int leaf = node.begin; leaf < node.end; ++leaf)
        is_deferred = is_deferred || (*device.list(leaf))[variable].deferred;
      if (is_deferred) add_variable(device, node, variable);
    }
  }
}

void SubtreeSums::wait_with(Device& device, int leaf, ReplicaGradients& gradients) const {
  std::unique_lock<std::mutex> lock(device.mutex);
  device.list(leaf) = &gradients;
  const auto next =
      std::ranges::find_if(device.sets, [&](comm::LeafRange set) { return set.begin > leaf; });
  device.sets.insert(next, {leaf, leaf + 1});
  if (leaves_in(device) == device.block.size()) return add_deferred(device);  // no more will come
  const int levels = std::bit_width(static_cast<unsigned>(device.block.size() - 1));
  const bool adds = !device.adding && std::ssize(device.sets) > levels + 1;
  if (adds) add_complete(device, {0, range_.total}, lock);
}

void SubtreeSums::forget(Device& device, int leaf) {
  const std::lock_guard lock(device.mutex);
  device.list(leaf) = nullptr;
  std::erase_if(device.sets,
                [&](comm::LeafRange set) { return set.begin <= leaf && leaf < set.end; });
}

}  // namespace brigade::distribute
