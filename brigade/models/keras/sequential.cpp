#include "brigade/models/keras/sequential.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/recompute.h"
#include "brigade/models/keras/keras_forward.h"

namespace brigade::models {
namespace {

std::string made_unique(const std::string& name, const std::set<std::string>& taken) {
  if (!taken.contains(name)) return name;
  for (int number = 1;; ++number) {
    std::string candidate = base::str_cat(name, "_", number);
    if (!taken.contains(candidate)) return candidate;
  }
}

/// Calls `visit` with each layer, those inside of a layer before it: the order in which a program
/// of Keras makes them.
template <class Layers, class Visit>
void for_each_layer(Layers& layers, const Visit& visit) {
  for (auto& layer : layers) {
    for_each_path(layer, [&](auto& path) { for_each_layer(path, visit); });
    visit(layer);
  }
}

std::vector<Layer> named(std::vector<Layer> layers) {
  std::set<std::string> taken;
  for_each_layer(layers, [&](const Layer& layer) {
    const std::string& name = given_name(layer);
    check_argument(name.empty() || taken.insert(name).second, "Two layers are called '", name,
                   "': names must be unique.");
  });
  for_each_layer(layers, [&](Layer& layer) {
    if (!given_name(layer).empty()) return;
    set_name(layer, made_unique(std::string(default_name(layer)), taken));
    taken.insert(given_name(layer));
  });
  return layers;
}

std::vector<std::string> names_of(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) names.push_back(given_name(layer));
  return names;
}

struct SummaryRow {
  std::string layer, shape, parameters, flops;
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string table(const std::vector<SummaryRow>& rows) {
  std::size_t first = 26, second = 24, third = 12;
  for (const SummaryRow& row : rows) {
    first = std::max(first, row.layer.size() + 2);
    second = std::max(second, row.shape.size() + 2);
    third = std::max(third, row.parameters.size() + 2);
  }
  const std::size_t width = first + second + third + 14;
  std::string text = std::string(width, '_') + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += base::str_cat(" ", padded(rows[i].layer, first), padded(rows[i].shape, second),
                          padded(rows[i].parameters, third), rows[i].flops, "\n");
    if (i == 0) text += std::string(width, '=') + "\n";
  }
  return text + std::string(width, '=') + "\n";
}

/// At least `num_layers` of them, one more where the last is fused with it.
std::size_t group_size(std::span<const Layer> layers, int num_layers, const ForwardPass& pass) {
  std::size_t size = 0;
  while (size < layers.size() && size < static_cast<std::size_t>(num_layers))
    size += layers_in_step(layers.subspan(size), pass);
  return size;
}

/// Appends the rows of `layers`, indented by `depth`; returns the shape of the result.
ExampleShape add_rows(std::vector<SummaryRow>& rows, const std::vector<Layer>& layers,
                      ExampleShape shape, std::size_t depth = 0) {
  for (const Layer& layer : layers) {
    bool has_paths = false;
    for_each_path(layer, [&](const std::vector<Layer>& path) {
      add_rows(rows, path, shape, depth + 1);
      has_paths = true;
    });
    ExampleShape next = output_shape(layer, given_name(layer), shape);
    // The layers inside have their own rows.
    const ParameterCount count = has_paths ? ParameterCount{} : parameter_count(layer, shape);
    rows.push_back(
        {base::str_cat(std::string(2 * depth, ' '), given_name(layer), " (", type_name(layer), ")"),
         shape_text(next), base::str_cat(count.trainable + count.other),
         base::str_cat(has_paths ? 0 : flops(layer, shape))});
    shape = std::move(next);
  }
  return shape;
}

}  // namespace

Sequential::Sequential(std::vector<Layer> layers, SequentialOptions options)
    : layers_(std::make_shared<const std::vector<Layer>>(named(std::move(layers)))),
      names_(names_of(*layers_)),
      options_(std::move(options)) {
  check_argument(!layers_->empty(), "A Sequential needs at least one layer.");
  check_argument(options_.recompute_every >= 0, options_.name, ": recompute_every is ",
                 options_.recompute_every, "; expected 0 (nothing is recomputed) or more.");
  std::vector<std::string> all;
  for_each_layer(*layers_, [&](const Layer& layer) { all.push_back(given_name(layer)); });
  layers::check_end_points(options_.name, options_.end_points, all);
  if (options_.input_shape) output_shape(*options_.input_shape);
}

at::Tensor Sequential::operator()(const at::Tensor& inputs, variables::Mode mode) const {
  check_argument(inputs.defined() && inputs.is_floating_point(), options_.name,
                 ": the inputs must be a floating-point tensor; convert images of bytes first "
                 "(x.to(at::kFloat) / 255).");
  const ExampleShape shape = example_shape(inputs);
  check_argument(!options_.input_shape || shape == *options_.input_shape, options_.name,
                 ": the inputs are ", shape_text(shape), ", but its input_shape says ",
                 shape_text(options_.input_shape.value_or(shape)), ".");
  const ForwardPass pass{
      .mode = mode, .memory_format = options_.memory_format, .end_points = options_.end_points};
  if (options_.recompute_every == 0) return apply_layers(*layers_, inputs, pass);
  at::Tensor x = inputs;
  std::span<const Layer> rest = *layers_;
  for (;;) {
    const std::span<const Layer> group =
        rest.first(group_size(rest, options_.recompute_every, pass));
    rest = rest.subspan(group.size());
    if (rest.empty()) return apply_layers(group, x, pass);
    x = layers::recompute([owner = layers_, group,
                           pass](const at::Tensor& in) { return apply_layers(group, in, pass); },
                          x);
  }
}

Sequential Sequential::recompute_every(int num_layers) const {
  SequentialOptions options = options_;
  options.recompute_every = num_layers;
  return Sequential(layers(), std::move(options));
}

ExampleShape Sequential::output_shape(const ExampleShape& input) const {
  return models::output_shape(*layers_, input);
}

std::int64_t Sequential::flops(const ExampleShape& input) const {
  return models::flops(*layers_, input);
}

std::string Sequential::summary(const std::optional<ExampleShape>& input_shape) const {
  const auto& known = input_shape ? input_shape : options_.input_shape;
  check_state(known.has_value(), options_.name,
              ": the shapes are not known yet. Set input_shape, or train the model.");
  std::vector<SummaryRow> rows = {{"Layer (type)", "Output Shape", "Param #", "FLOPs"}};
  add_rows(rows, *layers_, *known);
  const ParameterCount sum = parameter_count(*layers_, *known);
  return base::str_cat(
      "Model: \"", options_.name, "\"\n", table(rows), "Total params: ", sum.trainable + sum.other,
      "\nTrainable params: ", sum.trainable, "\nNon-trainable params: ", sum.other,
      "\nFLOPs of an example: ", flops(*known), " (2 for each multiply-add of Dense and Conv2D)\n");
}

}  // namespace brigade::models
