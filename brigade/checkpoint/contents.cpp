#include "brigade/checkpoint/contents.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "brigade/base/ambient.h"
#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/device/dtypes.h"
#include "brigade/device/host_copies.h"
#include "brigade/io/safetensors_header.h"
#include "brigade/variables/variable_slices.h"

namespace brigade::checkpoint {
namespace {

void check_holdable(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  check_argument(!named.name.empty() && named.name != "__metadata__",
                 "save: a tensor cannot be called ", base::quoted(named.name));
  check_argument(tensor.defined(), "save: tensor ", base::quoted(named.name), " is undefined");
  check_argument(
      tensor.layout() == at::kStrided && device::file_dtype_of(tensor.scalar_type()).has_value(),
      "save: tensor ", base::quoted(named.name), " is ", at::toString(tensor.scalar_type()), ", ",
      tensor.layout(), "; a checkpoint holds dense tensors of ", io::tensor_dtypes());
}

void check_unique(const std::vector<NamedTensor>& tensors, std::string_view what) {
  std::set<std::string_view> names;
  for (const NamedTensor& each : tensors) {
    check_argument(names.insert(each.name).second, "save: two ", what, " are called ",
                   base::quoted(each.name));
  }
}

/// What comes from a GPU has its values once `copies` has waited.
at::Tensor held(const at::Tensor& tensor, SnapshotMemory memory, device::HostCopies& copies) {
  if (tensor.defined() && !tensor.is_cpu()) return copies.queue(tensor.detach());
  const at::Tensor plain = tensor.detach().cpu().resolve_neg().contiguous();
  const bool is_done = memory == SnapshotMemory::kShared || !plain.is_alias_of(tensor);
  return is_done ? plain : plain.clone();
}

at::Tensor held(const variables::Variable& variable, SnapshotMemory memory,
                device::HostCopies& copies) {
  const bool is_as_it_lies = variable.synchronization() != variables::Synchronization::kOnRead;
  const bool is_copied_once = memory == SnapshotMemory::kShared || !variable.local().is_cpu();
  if (is_as_it_lies && is_copied_once) return held(variable.local(), memory, copies);
  const at::Tensor value = variable.read();  // usually a copy already
  return value.is_cpu() && value.is_contiguous() && !value.is_alias_of(variable.local())
             ? value
             : held(value, memory, copies);
}

/// One tensor for a variable, and one for all partitions of one, in the place of its first.
std::vector<NamedTensor> joined(std::span<const variables::Variable> variables,
                                std::vector<at::Tensor> values) {
  std::vector<std::string> names(variables.size());  // empty: part of an earlier tensor
  for (std::size_t i = 0; i < variables.size(); ++i) names[i] = variables[i].name();
  for (const auto& [name, indices] : variables::joined_slices(variables)) {
    std::vector<at::Tensor> parts;
    for (const std::size_t i : indices) {
      parts.push_back(values[i]);
      names[i].clear();
    }
    const std::size_t first = std::ranges::min(indices);
    names[first] = name;
    values[first] = variables::join_slices(parts, *variables[first].slice());
  }
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!names[i].empty()) tensors.push_back({names[i], values[i]});
  return tensors;
}

at::Tensor tensor_of(const io::ArrayLeaf& array) {
  const auto dtype = device::file_dtype_named(array.dtype);
  check_argument(dtype.has_value(), "save: a state array has the dtype ", array.dtype,
                 "; a checkpoint holds ", io::tensor_dtypes());
  auto tensor = at::empty(array.shape, at::TensorOptions().dtype(dtype->type));
  if (!array.bytes.empty()) {
    base::copy_bytes(tensor.mutable_data_ptr(), array.bytes.data(), array.bytes.size());
  }
  return tensor;
}

}  // namespace

Snapshot take_snapshot(std::int64_t step, const Contents& contents, SnapshotMemory memory) {
  check_argument(step >= 0, "save: the step is ", step, "; expected 0 or more");
  check_state(
      base::ambient().slots[static_cast<std::size_t>(base::AmbientIndex::kReplica)] == nullptr,
      "save: called inside a replica, which sees only its own components; call it outside of "
      "Strategy::run");
  const at::NoGradGuard no_grad;
  Snapshot snapshot{.step = step};
  auto state = io::to_json(contents.state);
  snapshot.state = std::move(state.json);
  snapshot.metrics = contents.metrics;
  snapshot.metadata = contents.metadata;
  device::HostCopies copies;
  std::vector<at::Tensor> values;
  for (const variables::Variable& each : contents.variables)
    values.push_back(held(each, memory, copies));
  for (const NamedTensor& each : contents.tensors) {
    check_holdable(each);
    snapshot.tensors.push_back({each.name, held(each.tensor, memory, copies)});
  }
  copies.wait();
  snapshot.variables = joined(contents.variables, std::move(values));
  for (const NamedTensor& each : snapshot.variables) check_holdable(each);
  for (const auto& [name, array] : state.arrays) {
    snapshot.arrays.push_back({name, tensor_of(array)});
  }
  check_unique(snapshot.variables, "variables");
  check_unique(snapshot.tensors, "tensors");
  return snapshot;
}

}  // namespace brigade::checkpoint
