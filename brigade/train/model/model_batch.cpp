#include "brigade/train/model/model_batch.h"

#include <cmath>
#include <memory>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/input/rows.h"

namespace brigade::train {
namespace {

using base::str_cat;
using input::NamedTensors;

std::string described(std::string_view what, const std::string& name) {
  return name.empty() ? std::string(what) : str_cat(what, " ", base::quoted(name));
}

void check_rows(const ModelBatch& batch, std::int64_t examples, std::string_view what,
                const NamedTensors& tensors) {
  for (std::size_t i = 0; i < tensors.tensors().size(); ++i) {
    const at::Tensor& each = tensors.tensors()[i];
    check_argument(
        each.defined() && each.dim() > 0 && each.size(0) == examples, "The ",
        described(what, tensors.names()[i]), " of a batch ",
        each.defined() ? str_cat("has shape ", each.sizes()) : std::string("is undefined"),
        ", and its ", described("input", batch.inputs.names().front()), " has shape ",
        batch.inputs.tensors().front().sizes(), ": both need the same number of examples.");
  }
}

void check_values(const std::string& name, const at::Tensor& weights) {
  check_argument(!weights.is_complex(), "The ", described("sample weight", name),
                 " is complex; weights are real numbers.");
  if (weights.numel() == 0) return;
  // NaN is the minimum of what contains it.
  const double least = weights.min().item<double>();
  const double most = weights.max().item<double>();
  if (least >= 0 && std::isfinite(most)) return;
  const std::string bad = std::isnan(least) ? "NaN" : str_cat(least >= 0 ? most : least);
  throw Error(
      ErrorCode::kInvalidArgument, "The ", described("sample weight", name), " has the value ", bad,
      "; weights must be finite, and 0 or more. To leave an example out, give it the weight 0.");
}

}  // namespace

NamedTensors unnamed(at::Tensor tensor) {
  return NamedTensors(std::make_shared<const NamedTensors::Names>(1), {std::move(tensor)});
}

const at::Tensor& ModelBatch::input() const {
  return internal::only_tensor(inputs, "The batch", "inputs");
}

const at::Tensor& ModelBatch::label() const {
  return internal::only_tensor(labels, "The batch", "labels");
}

std::int64_t ModelBatch::examples() const {
  check_argument(!inputs.tensors().empty(), "A batch of a Model has no input.");
  return input::row_count(inputs.tensors().front());
}

std::uint64_t ModelBatch::byte_size() const {
  using Bytes = data::ByteSize<NamedTensors>;
  return Bytes::of(inputs) + Bytes::of(labels) + Bytes::of(sample_weights);
}

namespace internal {

const at::Tensor& only_tensor(const NamedTensors& tensors, std::string_view owner,
                              std::string_view what) {
  check_argument(tensors.tensors().size() == 1, owner, " has ", tensors.tensors().size(), " ", what,
                 tensors.tensors().empty()
                     ? std::string()
                     : str_cat(" (", base::listed(tensors.names(), ", "), ")"),
                 " where one is expected: use NamedTensors for several.");
  return tensors.tensors().front();
}

ModelBatch checked(ModelBatch batch) {
  data::Structure<ModelBatch>::size(batch);
  for (std::size_t i = 0; i < batch.sample_weights.tensors().size(); ++i)
    check_values(batch.sample_weights.names()[i], batch.sample_weights.tensors()[i]);
  return batch;
}

}  // namespace internal
}  // namespace brigade::train

namespace brigade::data {

using input::NamedTensors;
using train::ModelBatch;

ModelBatch Structure<ModelBatch>::stack(std::vector<ModelBatch>&& elements) {
  check_argument(!elements.empty(), "A batch of no elements has no shape");
  const auto stacked = [&elements](NamedTensors ModelBatch::*part) {
    std::vector<NamedTensors> all;
    for (ModelBatch& each : elements) all.push_back(std::move(each.*part));
    return Structure<NamedTensors>::stack(std::move(all));
  };
  return {.inputs = stacked(&ModelBatch::inputs),
          .labels = stacked(&ModelBatch::labels),
          .sample_weights = stacked(&ModelBatch::sample_weights)};
}

std::int64_t Structure<ModelBatch>::size(const ModelBatch& batch) {
  const std::int64_t examples = batch.examples();
  train::check_rows(batch, examples, "input", batch.inputs);
  train::check_rows(batch, examples, "label", batch.labels);
  train::check_rows(batch, examples, "sample weight", batch.sample_weights);
  return examples;
}

ModelBatch Structure<ModelBatch>::slice(const ModelBatch& batch, std::int64_t begin,
                                        std::int64_t end) {
  using Part = Structure<NamedTensors>;
  return {.inputs = Part::slice(batch.inputs, begin, end),
          .labels = Part::slice(batch.labels, begin, end),
          .sample_weights = Part::slice(batch.sample_weights, begin, end)};
}

}  // namespace brigade::data
