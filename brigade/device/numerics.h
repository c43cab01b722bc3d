#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brigade::device {

/// How GPUs compute in float32: whether the same program gives the same bits again, or is as fast
/// as it can be. It changes nothing on CPUs, whose results repeat in any case.
enum class Numerics {
  /// Deterministic kernels, no TF32, and no trials of cuDNN, whose winner differs from run to run:
  /// every run on the same cards gives the same bits. libtorch logs a warning that names an
  /// operation for which it has no deterministic kernel; such a model does not repeat.
  kReproducible,
  /// TF32 in matrix products and convolutions (10 bits of mantissa), any kernel, and cuDNN tries
  /// which is fastest. Results differ in the last bits from run to run.
  kFast,
};

/// "reproducible", "fast".
std::string_view to_string(Numerics numerics);
/// Throws kInvalidArgument, with the nearest name and all names, for another one.
Numerics numerics_from(std::string_view name);
/// All names.
std::vector<std::string> numerics_names();

/// What Numerics stands for.
struct NumericsSettings {
  /// Only deterministic kernels. PyTorch: torch.use_deterministic_algorithms.
  bool deterministic = false;
  /// TF32 in matrix products and convolutions.
  bool tf32 = false;
  /// cuDNN tries its algorithms and takes the fastest.
  bool cudnn_benchmark = false;

  friend bool operator==(const NumericsSettings&, const NumericsSettings&) = default;
};
NumericsSettings settings_of(Numerics numerics);
/// "deterministic kernels, no TF32, no cuDNN benchmark"
std::string describe(const NumericsSettings& settings);

/// What libtorch is set to now.
NumericsSettings current_numerics_settings();
/// Sets libtorch to `numerics`, for the whole process: libtorch has one setting, which is that of
/// the strategy on GPUs that ran last. This is the only place of the library that does. Does
/// nothing where it is set so already.
///
/// Thread-safety: while no other thread computes.
void use_numerics(Numerics numerics);

}  // namespace brigade::device
