#include "brigade/device/numerics.h"

#include <ATen/Context.h>

#include <array>
#include <cstdlib>

#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::device {

namespace {

constexpr std::array kAllNumerics = {Numerics::kReproducible, Numerics::kFast};

/// cuBLAS reads it when a card is first used: two buffers of a fixed size instead of as many as are
/// free, which its choice of a kernel depends on. A value of the user's is kept.
void fix_cublas_workspace() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace

std::string_view to_string(Numerics numerics) {
  switch (numerics) {
    case Numerics::kReproducible:
      return "reproducible";
    case Numerics::kFast:
      return "fast";
  }
  return "unknown";
}

Numerics numerics_from(std::string_view name) {
  for (const Numerics numerics : kAllNumerics) {
    if (to_string(numerics) == name) return numerics;
  }
  throw base::unknown_name("numerics", name, "Numerics", numerics_names());
}

std::vector<std::string> numerics_names() {
  std::vector<std::string> names;
  for (const Numerics numerics : kAllNumerics) names.emplace_back(to_string(numerics));
  return names;
}

NumericsSettings settings_of(Numerics numerics) {
  const bool fast = numerics == Numerics::kFast;
  return {.deterministic = !fast, .tf32 = fast, .cudnn_benchmark = fast};
}

std::string describe(const NumericsSettings& settings) {
  return base::str_cat(settings.deterministic ? "deterministic kernels" : "any kernels",
                       settings.tf32 ? ", TF32" : ", no TF32",
                       settings.cudnn_benchmark ? ", cuDNN benchmark" : ", no cuDNN benchmark");
}

NumericsSettings current_numerics_settings() {
  const at::Context& context = at::globalContext();
  return {.deterministic = context.deterministicAlgorithms() && context.deterministicCuDNN(),
          .tf32 = context.allowTF32CuBLAS() || context.allowTF32CuDNN(),
          .cudnn_benchmark = context.benchmarkCuDNN()};
}

void use_numerics(Numerics numerics) {
  const NumericsSettings wanted = settings_of(numerics);
  if (current_numerics_settings() == wanted) return;
  at::Context& context = at::globalContext();
  if (wanted.deterministic) fix_cublas_workspace();
  context.setDeterministicAlgorithms(wanted.deterministic, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // a memset for every tensor
  context.setDeterministicCuDNN(wanted.deterministic);
  context.setBenchmarkCuDNN(wanted.cudnn_benchmark);
  context.setAllowTF32CuBLAS(wanted.tf32);
  context.setAllowTF32CuDNN(wanted.tf32);
}

}  // namespace brigade::device
