#include "brigade/comm/cross_device_ops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <map>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/reduction_tree.h"

namespace brigade::comm {

namespace {

void check_destinations(std::span<const c10::Device> destinations) {
  check_argument(!destinations.empty(),
                 "A reduction has no destinations: give at least one device for its result.");
}

/// The device of the first value that is defined; at least one is.
c10::Device first_device(std::span<const at::Tensor> values) {
  return std::ranges::find_if(values, &at::Tensor::defined)->device();
}

std::vector<at::Tensor> detached(std::span<const at::Tensor> values) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& value : values) all.push_back(value.defined() ? value.detach() : value);
  return all;
}

std::vector<at::Tensor> defined_ones(std::span<const at::Tensor> values) {
  std::vector<at::Tensor> defined;
  for (const at::Tensor& value : values) {
    if (value.defined()) defined.push_back(value.detach());
  }
  return defined;
}

void check_values(ReduceOp op, std::span<const at::Tensor> values) {
  check_argument(!values.empty(), "A reduction got no values: it needs one per replica.");
  const std::vector<at::Tensor> defined = defined_ones(values);
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  check_argument(adds || defined.size() == values.size(), "The ", to_string(op),
                 " of replicas' values needs one of each and some are missing.");
  for (const at::Tensor& value : defined) {
    const at::Tensor& first = defined.front();
    if (value.sizes() != first.sizes() || value.scalar_type() != first.scalar_type()) {
      refuse("A reduction got values ", shape_of(first), " and ", shape_of(value),
             "; shapes and dtypes must be the same.");
    }
    if (op == ReduceOp::kMean && !value.is_floating_point()) {
      refuse("The mean needs floating values and got ", shape_of(value),
             "; convert them, or use the sum.");
    }
  }
}

at::Tensor copy_on(const at::Tensor& value, c10::Device device) {
  return value.to(value.options().device(device), /*non_blocking=*/false, /*copy=*/true);
}

std::vector<at::Tensor> moved(std::span<const at::Tensor> values, c10::Device device) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& value : values)
    there.push_back(value.defined() ? value.to(device) : value);
  return there;
}

/// `result` itself for the first destination on its device, and copies for the others.
std::vector<at::Tensor> spread(const at::Tensor& result,
                               std::span<const c10::Device> destinations) {
  std::vector<at::Tensor> results;
  bool given = false;
  for (const c10::Device destination : destinations) {
    const bool give = !given && destination == result.device();
    results.push_back(give ? result : copy_on(result, destination));
    given = given || give;
  }
  return results;
}

int at_least_one(int value, std::string_view option) {
  check_argument(value >= 1, option, " is ", value, " and must be at least 1.");
  return value;
}

using Results = std::vector<std::vector<at::Tensor>>;  // [reduction][destination]

/// The values of one dtype that are defined in some replica, concatenated in each replica.
struct Bucket {
  std::vector<std::size_t> members;  // indices into the batch
  std::vector<at::Tensor> flat;      // [replica]
};

at::Tensor flat_column(std::span<const std::vector<at::Tensor>> values, const Bucket& bucket,
                       std::size_t replica) {
  c10::Device device(c10::kCPU);
  for (const std::size_t i : bucket.members) {
    if (values[i][replica].defined()) device = values[i][replica].device();
  }
  std::vector<at::Tensor> column;
  for (const std::size_t i : bucket.members) {
    const at::Tensor& value = values[i][replica];
    const at::Tensor example = defined_ones(values[i]).front();
    column.push_back(value.defined()
                         ? value.detach().reshape(-1)
                         : at::full({example.numel()}, -0.0, example.options().device(device)));
  }
  return at::cat(column);
}

std::vector<Bucket> bucket_by_dtype(std::span<const std::vector<at::Tensor>> values) {
  std::map<at::ScalarType, Bucket> buckets;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<at::Tensor> defined = defined_ones(values[i]);
    if (!defined.empty()) buckets[defined.front().scalar_type()].members.push_back(i);
  }
  std::vector<Bucket> result;
  for (auto& [dtype, bucket] : buckets) {
    for (std::size_t replica = 0; replica < values.front().size(); ++replica)
      bucket.flat.push_back(flat_column(values, bucket, replica));
    result.push_back(std::move(bucket));
  }
  return result;
}

}  // namespace

std::vector<at::Tensor> CrossDeviceOps::reduce(ReduceOp op, std::span<const at::Tensor> values,
                                               std::span<const c10::Device> destinations) const {
  const at::NoGradGuard no_grad;
  check_destinations(destinations);
  check_values(op, values);
  const std::vector<at::Tensor> defined = defined_ones(values);
  if (defined.empty()) return std::vector<at::Tensor>(destinations.size());
  const bool mean = op == ReduceOp::kMean;
  std::vector<at::Tensor> terms = detached(values);
  if (op == ReduceOp::kSum || mean) {  // groups' sums are not rounded either
    for (at::Tensor& term : terms) {
      if (term.defined()) term = to_accumulation_dtype(term);
    }
  }
  std::vector<at::Tensor> results = combine(mean ? ReduceOp::kSum : op, terms, destinations);
  for (at::Tensor& result : results) {
    if (mean) result.div_(static_cast<double>(values.size()));
    result = result.to(defined.front().scalar_type());
  }
  return results;
}

std::vector<std::vector<at::Tensor>> CrossDeviceOps::batch_reduce(
    ReduceOp op, std::span<const std::vector<at::Tensor>> values,
    std::span<const c10::Device> destinations) const {
  const at::NoGradGuard no_grad;
  check_destinations(destinations);
  for (const auto& one : values) {
    check_values(op, one);
    check_argument(one.size() == values.front().size(), "The reductions of a batch have values of ",
                   one.size(), " and ", values.front().size(), " replicas; they must be the same.");
  }
  Results results(values.size(), std::vector<at::Tensor>(destinations.size()));
  if (num_buckets() == 0) {
    for (std::size_t i = 0; i < values.size(); ++i)
      results[i] = reduce(op, values[i], destinations);
    return results;
  }
  for (const Bucket& bucket : bucket_by_dtype(values)) {
    const std::int64_t size = bucket.flat.front().numel();
    Results whole(destinations.size());  // [destination][part]
    for (int part = 0; part < num_buckets(); ++part) {
      const std::int64_t begin = size * part / num_buckets();
      const std::int64_t end = size * (part + 1) / num_buckets();
      std::vector<at::Tensor> sent;
      for (const at::Tensor& flat : bucket.flat) sent.push_back(flat.narrow(0, begin, end - begin));
      const std::vector<at::Tensor> arrived = reduce(op, sent, destinations);
      for (std::size_t d = 0; d < arrived.size(); ++d) whole[d].push_back(arrived[d]);
    }
    for (std::size_t d = 0; d < destinations.size(); ++d) {
      const at::Tensor flat = at::cat(whole[d]);
      std::int64_t begin = 0;
      for (const std::size_t i : bucket.members) {
        const at::Tensor example = defined_ones(values[i]).front();
        results[i][d] = flat.narrow(0, begin, example.numel()).view(example.sizes());
        begin += example.numel();
      }
    }
  }
  return results;
}

std::vector<at::Tensor> CrossDeviceOps::broadcast(const at::Tensor& value,
                                                  std::span<const c10::Device> destinations) const {
  const at::NoGradGuard no_grad;
  check_destinations(destinations);
  check_argument(value.defined(), "A broadcast needs a value and got none.");
  std::vector<at::Tensor> copies;
  for (const c10::Device destination : destinations)
    copies.push_back(copy_on(value.detach(), destination));
  return copies;
}

std::vector<at::Tensor> ReductionToOneDevice::combine(
    ReduceOp op, std::span<const at::Tensor> values,
    std::span<const c10::Device> destinations) const {
  const c10::Device device = options_.reduce_to_device.value_or(destinations.front());
  return spread(combine_by_tree(moved(values, device), op), destinations);
}

HierarchicalCopyAllReduce::HierarchicalCopyAllReduce(HierarchicalCopyOptions options)
    : options_(options) {
  at_least_one(options.num_buckets, "HierarchicalCopyOptions::num_buckets");
  at_least_one(options.group_size, "HierarchicalCopyOptions::group_size");
}

std::vector<at::Tensor> HierarchicalCopyAllReduce::combine(
    ReduceOp op, std::span<const at::Tensor> values,
    std::span<const c10::Device> destinations) const {
  const auto group_size = static_cast<std::size_t>(options_.group_size);
  const auto leaves = static_cast<int>(values.size());
  std::vector<LeafRange> parts;
  std::vector<at::Tensor> sums;      // [part], each on its group's first device
  std::vector<c10::Device> devices;  // [group]: that of its first value
  for (std::size_t begin = 0; begin < values.size(); begin += group_size) {
    const auto group = values.subspan(begin, std::min(group_size, values.size() - begin));
    const LeafRange block{static_cast<int>(begin), static_cast<int>(begin + group.size())};
    const c10::Device device =
        first_device(std::ranges::any_of(group, &at::Tensor::defined) ? group : values);
    for (const LeafRange& part : ReductionTree::whole_subtrees(leaves, block)) {
      const auto of_part = values.subspan(static_cast<std::size_t>(part.begin),
                                          static_cast<std::size_t>(part.size()));
      parts.push_back(part);
      sums.push_back(combine_by_tree(moved(of_part, device), op));
    }
    devices.push_back(device);
  }
  const at::Tensor result =
      combine_by_tree(moved(sums, devices.front()), ReductionTree(leaves, parts), op);
  // Copied back the same way: to the first device of each group, then to the group's others.
  std::vector<at::Tensor> of_groups;
  for (const c10::Device device : devices) of_groups.push_back(result.to(device));
  std::vector<at::Tensor> results;
  for (const c10::Device destination : destinations) {
    std::size_t near = 0;
    for (std::size_t i = 0; i < values.size() && near == 0; ++i) {
      if (values[i].defined() && values[i].device() == destination) near = i / group_size;
    }
    results.push_back(copy_on(of_groups[near], destination));
  }
  return results;
}

AllReduce::AllReduce(AllReduceOptions options) : options_(options) {
  at_least_one(options.num_buckets, "AllReduceOptions::num_buckets");
}

std::vector<at::Tensor> AllReduce::combine(ReduceOp op, std::span<const at::Tensor> values,
                                           std::span<const c10::Device> destinations) const {
  const std::vector<at::Tensor> defined = defined_ones(values);
  const at::Tensor& first = defined.front();
  const auto shards = static_cast<std::int64_t>(defined.size());
  std::vector<at::Tensor> results;
  for (const c10::Device destination : destinations)
    results.push_back(at::empty(first.sizes(), first.options().device(destination)));
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::int64_t begin = first.numel() * shard / shards;
    const std::int64_t count = first.numel() * (shard + 1) / shards - begin;
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& value : values)
      pieces.push_back(value.defined() ? value.reshape(-1).narrow(0, begin, count) : value);
    const c10::Device worker = defined[static_cast<std::size_t>(shard)].device();
    const at::Tensor sum = combine_by_tree(moved(pieces, worker), op);
    for (const at::Tensor& result : results) result.view(-1).narrow(0, begin, count).copy_(sum);
  }
  return results;
}

}  // namespace brigade::comm
