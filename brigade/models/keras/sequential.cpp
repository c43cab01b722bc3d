#include "brigade/models/sequential.h"

#include <algorithm>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/models/apply_layer.h"

namespace brigade::models {
namespace {

std::string made_unique(const std::string& name, const std::set<std::string>& taken) {
  if (!taken.contains(name)) return name;
  for (int number = 1;; ++number) {
    std::string candidate = base::str_cat(name, "_", number);
    if (!taken.contains(candidate)) return candidate;
  }
}

std::vector<std::string> named(const std::vector<Layer>& layers) {
  std::set<std::string> taken;
  for (const Layer& layer : layers) {
    const std::string& name = given_name(layer);
    check_argument(name.empty() || taken.insert(name).second,
                   base::str_cat("Two layers are called '", name, "': names must be unique."));
  }
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    const std::string& given = given_name(layer);
    names.push_back(given.empty() ? made_unique(std::string(default_name(layer)), taken) : given);
    taken.insert(names.back());
  }
  return names;
}

struct SummaryRow {
  std::string layer, shape, parameters;
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string table(const std::vector<SummaryRow>& rows) {
  std::size_t first = 26, second = 24;
  for (const SummaryRow& row : rows) {
    first = std::max(first, row.layer.size() + 2);
    second = std::max(second, row.shape.size() + 2);
  }
  const std::size_t width = first + second + 12;
  std::string text = std::string(width, '_') + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += base::str_cat(" ", padded(rows[i].layer, first), padded(rows[i].shape, second),
                          rows[i].parameters, "\n");
    if (i == 0) text += std::string(width, '=') + "\n";
  }
  return text + std::string(width, '=') + "\n";
}

}  // namespace

Sequential::Sequential(std::vector<Layer> layers, SequentialOptions options)
    : layers_(std::move(layers)), names_(named(layers_)), options_(std::move(options)) {
  check_argument(!layers_.empty(), "A Sequential needs at least one layer.");
  if (options_.input_shape) output_shape(*options_.input_shape);
}

at::Tensor Sequential::operator()(const at::Tensor& inputs, variables::Mode mode) const {
  check_argument(inputs.defined() && inputs.is_floating_point(),
                 base::str_cat(options_.name,
                               ": the inputs must be a floating-point tensor; convert images "
                               "of bytes first (x.to(at::kFloat) / 255)."));
  const ExampleShape shape(inputs.sizes().begin() + std::min<std::int64_t>(1, inputs.dim()),
                           inputs.sizes().end());
  check_argument(!options_.input_shape || shape == *options_.input_shape,
                 base::str_cat(options_.name, ": the inputs are ", shape_text(shape),
                               ", but its input_shape says ",
                               shape_text(options_.input_shape.value_or(shape)), "."));
  at::Tensor x = inputs;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i + 1 < layers_.size() && are_fusible(layers_[i], layers_[i + 1])) {
      x = apply_fused(layers_[i], names_[i], x);
      ++i;
    } else {
      x = apply_layer(layers_[i], names_[i], x, mode);
    }
  }
  return x;
}

ExampleShape Sequential::output_shape(const ExampleShape& input) const {
  ExampleShape shape = input;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    shape = models::output_shape(layers_[i], names_[i], shape);
  return shape;
}

std::string Sequential::summary(const std::optional<ExampleShape>& input_shape) const {
  const auto& known = input_shape ? input_shape : options_.input_shape;
  check_state(
      known.has_value(),
      base::str_cat(options_.name,
                    ": the shapes are not known yet. Set input_shape, or train the model."));
  ExampleShape shape = *known;
  ParameterCount sum;
  std::vector<SummaryRow> rows = {{"Layer (type)", "Output Shape", "Param #"}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    ExampleShape next = models::output_shape(layers_[i], names_[i], shape);
    const ParameterCount count = parameter_count(layers_[i], shape);
    rows.push_back({base::str_cat(names_[i], " (", type_name(layers_[i]), ")"), shape_text(next),
                    base::str_cat(count.trainable + count.other)});
    sum.trainable += count.trainable;
    sum.other += count.other;
    shape = std::move(next);
  }
  return base::str_cat(
      "Model: \"", options_.name, "\"\n", table(rows), "Total params: ", sum.trainable + sum.other,
      "\nTrainable params: ", sum.trainable, "\nNon-trainable params: ", sum.other, "\n");
}

}  // namespace brigade::models
