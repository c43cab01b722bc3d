// The tutorials' examples of variable scopes, with what TensorFlow really does in each. Where a
// tutorial says otherwise, the comment says so.
#include <ATen/ops/matmul.h>
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

bool same_memory(const bg::Variable& a, const bg::Variable& b) {
  return a.local().is_alias_of(b.local());
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

void variable_scope_example_1() {
  std::cout << "A scope that is opened again with reuse finds its variables\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  const auto declare = [] {
    return std::pair(bg::get_variable("matrix1", {{10, 8}}), bg::get_variable("matrix2", {{8, 1}}));
  };
  const auto [m, x] = [&] {
    const auto scope = bg::variable_scope("test_scope");
    return declare();
  }();
  const at::Tensor y = at::matmul(m.local(), x.local());
  const auto again = bg::variable_scope("test_scope", {.reuse = bg::Reuse::kYes});
  const auto [n, z] = declare();
  const at::Tensor w = at::matmul(n.local(), z.local());
  check(same_memory(m, n) && same_memory(x, z), "M and N, x and z are the same variables");
  check(y.equal(w), "so both products are equal");
  const std::string missing = error_of([] { bg::get_variable("matrix3", {{1}}); });
  check(!missing.empty(), "new variables cannot be declared there: " + missing);
  const std::string differs = error_of([] { bg::get_variable("matrix1", {{10, 10}}); });
  check(!differs.empty(), "and shapes must agree: " + differs);
}

void variable_scope_example_2() {
  std::cout << "reuse_variables() in the middle of a scope does the same\n";
  bg::Graph graph;
  const auto opened = graph.as_default();
  const auto scope = bg::variable_scope("test_scope");
  const auto m = bg::get_variable("matrix1", {{10, 8}});
  scope->reuse_variables();
  const auto n = bg::get_variable("matrix1", {{10, 8}});
  check(same_memory(m, n), "M and N are the same variable");
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
    variable_scope_example_1();
    variable_scope_example_2();
    unnamed_layers_in_a_reopened_scope();
    unnamed_layers_after_reuse_variables();
    named_layers();
    towers();
  });
}
