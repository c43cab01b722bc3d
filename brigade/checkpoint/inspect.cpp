#include "brigade/checkpoint/inspect.h"

#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/weights_file.h"
#include "brigade/device/dtypes.h"

namespace brigade::checkpoint {
namespace {

using Key = std::pair<Section, std::string>;

struct Loaded {
  Inspection inspection;
  std::map<Key, at::Tensor> tensors;
  std::optional<std::string> state;
};

std::string dtype_name(at::ScalarType type) {
  const auto dtype = device::file_dtype_of(type);
  return dtype ? std::string(dtype->name) : at::toString(type);
}

InspectedTensor inspected(Section section, const std::string& name, const at::Tensor& tensor) {
  return {.section = section,
          .name = name,
          .dtype = dtype_name(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .bytes = tensor.nbytes(),
          .not_finite = count_not_finite(tensor)};
}

void add(Loaded& loaded, Section section, std::vector<NamedTensor> tensors) {
  for (NamedTensor& each : tensors) {
    loaded.inspection.tensors.push_back(inspected(section, each.name, each.tensor));
    loaded.tensors.emplace(Key{section, std::move(each.name)}, std::move(each.tensor));
  }
}

Loaded load(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  Loaded loaded{.inspection = {.path = checkpoint.path(),
                               .format = "checkpoint",
                               .step = manifest.step,
                               .number = manifest.number,
                               .time_ms = manifest.time.count(),
                               .metrics = manifest.metrics,
                               .metadata = manifest.metadata,
                               .tensors = {},
                               .bytes = manifest.bytes()},
                .tensors = {},
                .state = manifest.state};
  for (const Section section : kSections) add(loaded, section, checkpoint.tensors(section));
  return loaded;
}

Loaded load_directory(std::shared_ptr<const io::FileSystem> files, const io::Path& path) {
  if (files->exists(path / kManifestName)) return load(Checkpoint::open(std::move(files), path));
  const LatestComplete latest = find_latest_complete(files, path);
  if (latest.checkpoint) return load(*latest.checkpoint);
  std::string broken;
  for (const BrokenCheckpoint& each : latest.broken) broken += base::str_cat("; ", each.reason);
  throw Error(broken.empty() ? ErrorCode::kNotFound : ErrorCode::kDataLoss, path,
              " holds no complete checkpoint", broken);
}

Loaded load_file(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                 HashMismatch mismatch) {
  WeightsFile file = read_weights_file(std::move(files), path, mismatch);
  Loaded loaded{.inspection = {.path = path, .format = std::string(to_string(file.format))},
                .tensors = {},
                .state = {}};
  loaded.inspection.bytes = file.bytes;
  loaded.inspection.metadata = std::move(file.metadata);
  loaded.inspection.left_out = std::move(file.left_out);
  add(loaded, Section::kVariables, std::move(file.tensors));
  return loaded;
}

Loaded load(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
            HashMismatch mismatch) {
  check_argument(files != nullptr, "inspect: needs a file system");
  if (is_weights_file(*files, path)) return load_file(std::move(files), path, mismatch);
  if (files->exists(path)) return load_directory(std::move(files), path);
  throw Error(ErrorCode::kNotFound, "cannot inspect ", path, ": it does not exist");
}

std::string form_of(const at::Tensor& tensor) {
  return base::str_cat(dtype_name(tensor.scalar_type()), " [", base::join(tensor.sizes(), ", "),
                       "]");
}

at::Tensor differing_elements(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor differs = a.ne(b);
  if (!a.is_floating_point()) return differs;
  return differs.logical_and(a.isnan().logical_and(b.isnan()).logical_not());
}

void compare_values(TensorDifference difference, const at::Tensor& a, const at::Tensor& b,
                    Comparison& result) {
  const at::Tensor differs = differing_elements(a, b);
  difference.differing = static_cast<std::uint64_t>(differs.sum().item<std::int64_t>());
  if (difference.differing == 0) {
    ++result.equal;
    return;
  }
  const at::Tensor distance = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
  difference.max_abs_difference = distance.masked_select(differs).max().item<double>();
  result.value_differs.push_back(std::move(difference));
}

}  // namespace

std::uint64_t count_not_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point()) return 0;
  return static_cast<std::uint64_t>(tensor.isfinite().logical_not().sum().item<std::int64_t>());
}

Inspection inspect(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                   HashMismatch mismatch) {
  return load(std::move(files), path, mismatch).inspection;
}

Comparison compare(std::shared_ptr<const io::FileSystem> files, const io::Path& a,
                   const io::Path& b, HashMismatch mismatch) {
  Loaded left = load(files, a, mismatch);
  Loaded right = load(files, b, mismatch);
  Comparison result;
  for (const auto& [key, tensor] : left.tensors) {
    const auto other = right.tensors.find(key);
    if (other == right.tensors.end()) {
      result.only_in_a.push_back(inspected(key.first, key.second, tensor));
      continue;
    }
    TensorDifference difference{.section = key.first,
                                .name = key.second,
                                .a = form_of(tensor),
                                .b = form_of(other->second)};
    if (difference.a != difference.b) {
      difference.max_abs_difference = std::numeric_limits<double>::quiet_NaN();
      result.form_differs.push_back(std::move(difference));
    } else {
      compare_values(std::move(difference), tensor, other->second, result);
    }
  }
  for (const auto& [key, tensor] : right.tensors) {
    if (!left.tensors.contains(key)) {
      result.only_in_b.push_back(inspected(key.first, key.second, tensor));
    }
  }
  result.step_differs = left.inspection.step && right.inspection.step &&
                        left.inspection.step != right.inspection.step;
  result.state_differs = left.state && right.state && left.state != right.state;
  result.a = std::move(left.inspection);
  result.b = std::move(right.inspection);
  return result;
}

}  // namespace brigade::checkpoint
