// Where variables and computations go, as in the tutorial on in-graph replication: device scopes by
// name and by function, round-robin parameter servers, soft and hard placement, the placement log.
#include <ATen/ops/matmul.h>
#include <brigade/brigade.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

namespace bg = brigade;

namespace {

void check(bool holds, const std::string& claim) {
  std::cout << (holds ? "  yes: " : "  NO:  ") << claim << "\n";
  if (!holds) std::exit(1);
}

/// A graph with its log of what went where.
struct Program {
  explicit Program(bg::device::MissingDevice missing = bg::device::MissingDevice::kFallBack)
      : placer(std::make_shared<bg::device::Placer>(bg::device::PlacementOptions{
            .missing = missing,
            .log = true,
            .sink = [](std::string_view line) { std::cout << "  " << line << "\n"; }})),
        graph({.placer = placer}),
        opened(graph.as_default()) {}

  std::shared_ptr<bg::device::Placer> placer;
  bg::Graph graph;
  bg::base::AmbientScope<bg::Graph> opened;
};

/// y = M x, computed where the open device scopes say; `M` and `x` travel there.
at::Tensor multiply() {
  const auto device = bg::variables::layer_device("MatMul");
  const at::Tensor m = bg::variables::get_value("M", {{10, 8}}, {}, device);
  const at::Tensor x = bg::variables::get_value("x", {{8, 1}}, {}, device);
  return at::matmul(m, x);
}

bool is_at(const Program& program, const std::string& start) {
  return std::ranges::any_of(program.placer->lines(),
                             [&](const auto& line) { return line.starts_with(start); });
}

void device_example() {
  std::cout << "Variables on the CPU, the product on the first GPU, or where that would be\n";
  Program program;
  {
    const auto cpu = bg::with_device("/cpu:0");
    bg::get_variable("M", {{10, 8}});
    bg::get_variable("x", {{8, 1}});
  }
  bg::get_variable_scope().reuse_variables();
  const auto gpu = bg::with_device("/gpu:0");
  const at::Tensor y = multiply();
  check(is_at(program, "M: (variable): cpu:0"), "M is on cpu:0");
  check(y.size(0) == 10, "and y is computed");
}

void device_example_2() {
  std::cout << "The same with a device function\n";
  Program program;
  const auto device = bg::with_device(bg::assign_to_device("/gpu:0", "/cpu:0"));
  multiply();
  check(is_at(program, "M: (variable): cpu:0"), "the function sends variables to the CPU");
  check(is_at(program, "MatMul: (layer): "), "and the product to its own device");
}

void device_options() {
  std::cout << "Without soft placement a missing device is an error\n";
  Program program(bg::device::MissingDevice::kRefuse);
  const auto device = bg::with_device("/gpu:99");
  try {
    bg::get_variable("M", {{10, 8}});
    check(false, "gpu:99 does not exist");
  } catch (const bg::Error& error) {
    check(error.code() == bg::ErrorCode::kNotFound, error.what());
  }
}

void variables_on_parameter_servers() {
  std::cout << "Variables on two parameter servers, round-robin\n";
  const bg::device::DeviceFunction setter =
      bg::replica_device_setter({.ps_tasks = 2, .worker_device = "/job:worker/task:0"});
  const auto placed = [&](const std::string& name) {
    const auto device = bg::with_device(setter);
    return bg::device::requested_device({.name = name, .kind = bg::device::PlacedKind::kVariable});
  };
  check(placed("v0") == "/job:ps/task:0", "v0 goes to task 0");
  check(placed("v1") == "/job:ps/task:1", "v1 goes to task 1");
  check(placed("v2") == "/job:ps/task:0", "v2 goes to task 0 again");
}

}  // namespace

int main() {
  return bg::run_main([&] {
    device_example();
    device_example_2();
    device_options();
    variables_on_parameter_servers();
  });
}
