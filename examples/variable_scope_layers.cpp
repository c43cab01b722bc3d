// Layers in variable scopes that are reused, with what TensorFlow really does in each case. Where
// the tutorial says otherwise, the comment says so.
#include <ATen/ops/zeros.h>
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace bg = brigade;

namespace {

void check(bool holds, const std::string& claim) {
  std::cout << (holds ? "  yes: " : "  NO:  ") << claim << "\n";
  if (!holds) std::exit(1);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const bg::Variable& variable : bg::global_variables()) all.push_back(variable.name());
  return all;
}

/// The error's text, or nothing if there was none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const bg::Error& error) {
    return error.what();
  }
  return "";
}

at::Tensor unnamed_layer() {
  return bg::layers::v1::conv2d(at::zeros({1, 1, 10, 10}), 10, {5, 5});
}

// The tutorial calls this a failure that creates new variables in silence. It is neither: a scope
// that is opened again by name counts its layers from the start, so the second layer is called
// conv2d too.
void unnamed_layers_in_a_reopened_scope() {
  std::cout << "Layers without a name share their weights if the scope is opened again\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  for (const auto reuse : {bg::Reuse::kNo, bg::Reuse::kYes}) {
    const auto scope = bg::variable_scope("test_scope", {.reuse = reuse});
    unnamed_layer();
  }
  check(names() == std::vector<std::string>{"test_scope/conv2d/kernel", "test_scope/conv2d/bias"},
        "there is one layer, test_scope/conv2d");
}

// This is where it really fails: within one scope the second layer is conv2d_1, which does not
// exist.
void unnamed_layers_after_reuse_variables() {
  std::cout << "Layers without a name fail after reuse_variables()\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  const auto scope = bg::variable_scope("test_scope");
  unnamed_layer();
  scope->reuse_variables();
  const std::string error = error_of(unnamed_layer);
  check(error.find("conv2d_1") != std::string::npos, "it looks for conv2d_1: " + error);
}

void named_layers() {
  std::cout << "Layers with a name share their weights in both\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  const auto layer = [] {
    return bg::layers::v1::conv2d(at::zeros({1, 1, 10, 10}), 10, {5, 5}, {.name = "layer_name"});
  };
  {
    const auto scope = bg::variable_scope("test_scope");
    layer();
    scope->reuse_variables();
    layer();
  }
  const auto scope = bg::variable_scope("test_scope", {.reuse = bg::Reuse::kYes});
  layer();
  check(names() ==
            std::vector<std::string>{"test_scope/layer_name/kernel", "test_scope/layer_name/bias"},
        "there is one layer, test_scope/layer_name");
}

// How towers share: the captured scope is entered once per tower, and reuses after the first.
void towers() {
  std::cout << "A captured scope, reused by every tower but the first\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  for (int tower = 0; tower < 3; ++tower) {
    const auto scope = bg::variable_scope(bg::get_variable_scope(),
                                          {.reuse = tower > 0 ? bg::Reuse::kYes : bg::Reuse::kNo});
    const auto name = bg::name_scope("tower_" + std::to_string(tower));
    unnamed_layer();
  }
  check(names() == std::vector<std::string>{"conv2d/kernel", "conv2d/bias"},
        "three towers, one layer");
}

}  // namespace

int main() {
  return bg::run_main([&] {
    unnamed_layers_in_a_reopened_scope();
    unnamed_layers_after_reuse_variables();
    named_layers();
    towers();
  });
}
