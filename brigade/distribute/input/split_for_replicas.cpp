#include "brigade/distribute/input/split_for_replicas.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "brigade/input/to_device.h"

namespace brigade::distribute {

std::vector<std::any> parts_for(const BatchOps& ops, const std::any& batch,
                                const ReplicaRange& replicas) {
  const auto sizes = input::split_sizes(ops.examples_in(batch), replicas.total);
  const auto own = sizes.begin() + replicas.first;
  std::int64_t begin = std::accumulate(sizes.begin(), own, std::int64_t{0});
  std::vector<std::any> parts;
  for (auto size = own; size != own + replicas.local; begin += *size++)
    parts.push_back(ops.examples_between(batch, begin, begin + *size));
  return parts;
}

std::any to_device(const BatchOps& ops, const std::any& batch, c10::Device device) {
  return ops.each_tensor(batch, [device](const at::Tensor& tensor) {
    return input::tensor_to_device(tensor, device);
  });
}

PerReplica<std::any> split_for_replicas(const BatchOps& ops, const std::any& batch,
                                        const ReplicaRange& replicas,
                                        std::span<const c10::Device> devices) {
  std::vector<std::any> batches = parts_for(ops, batch, replicas);
  ExampleCounts counts{.local = {}, .global = ops.examples_in(batch)};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    counts.local.push_back(ops.examples_in(batches[i]));
    if (!devices[i].is_cpu()) batches[i] = to_device(ops, batches[i], devices[i]);
  }
  return PerReplica<std::any>(std::move(batches), std::move(counts));
}

}  // namespace brigade::distribute
