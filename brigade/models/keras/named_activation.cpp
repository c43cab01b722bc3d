#include "brigade/models/keras/named_activation.h"

#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>

#include <array>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::models {
namespace {

using Function = at::Tensor (*)(const at::Tensor&);

struct Row {
  std::string_view name;
  Function function;
};

constexpr double kKerasLeakySlope = 0.2;

const auto kTable = std::to_array<Row>({
    {"elu", [](const at::Tensor& x) { return at::elu(x); }},
    {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
    {"leaky_relu", [](const at::Tensor& x) { return at::leaky_relu(x, kKerasLeakySlope); }},
    {"linear", nullptr},
    {"log_softmax", [](const at::Tensor& x) { return at::log_softmax(x, -1); }},
    {"relu", layers::relu},
    {"relu6", [](const at::Tensor& x) { return at::relu6(x); }},
    {"selu", [](const at::Tensor& x) { return at::selu(x); }},
    {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
    {"silu", [](const at::Tensor& x) { return at::silu(x); }},
    {"softmax", [](const at::Tensor& x) { return at::softmax(x, -1); }},
    {"softplus", [](const at::Tensor& x) { return at::softplus(x); }},
    {"swish", [](const at::Tensor& x) { return at::silu(x); }},
    {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
});

}  // namespace

NamedActivation::NamedActivation(const std::string& name) : name_(name) {
  for (const Row& row : kTable) {
    if (row.name != name) continue;
    if (row.function != nullptr) function_ = row.function;
    return;
  }
  const std::vector<std::string> names = activation_names();
  const auto nearest = base::nearest(name, names);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("No activation is called '", name, "'",
                            nearest ? base::str_cat("; did you mean '", *nearest, "'?") : ".",
                            " Activations: ", base::join(names, ", "), "."));
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Row& row : kTable) names.emplace_back(row.name);
  return names;
}

}  // namespace brigade::models
