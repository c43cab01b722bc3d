// Variable scopes, as in the tutorial: variables are found again by their names in a scope that is
// opened again, or whose `reuse_variables` was called. For layers see
// example_variable_scope_layers.
#include <ATen/ops/matmul.h>
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace bg = brigade;

namespace {

void check(bool holds, const std::string& claim) {
  std::cout << (holds ? "  yes: " : "  NO:  ") << claim << "\n";
  if (!holds) std::exit(1);
}

bool same_memory(const bg::Variable& a, const bg::Variable& b) {
  return a.local().is_alias_of(b.local());
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

}  // namespace

int main() {
  return bg::run_main([&] {
    variable_scope_example_1();
    variable_scope_example_2();
  });
}
