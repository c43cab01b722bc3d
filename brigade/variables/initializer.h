#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

/// How variables begin. Every initializer is a pure function of shape, dtype and seed, computed on
/// the CPU; `get_variable` derives the seed from the root seed and the variable's full name. So
/// neither the order in which variables are made, nor the device that they live on, nor what else
/// is in the model changes a value.
///
/// Weights are laid out as libtorch's: [outputs, inputs, window...]. An initializer that asks for
/// the number of inputs (`fan_in`) takes dimension 1 times the window, for outputs dimension 0
/// times the window; with one dimension both are its size, with none 1.
///
/// Thread-safety: pure functions.
namespace brigade::variables {

class Initializer {
 public:
  using Function =
      std::function<at::Tensor(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed)>;

  /// None: the scope's is used.
  Initializer() = default;
  /// `name` is for messages. `dtype`, if set, is the only one it makes.
  Initializer(std::string name, Function function,
              std::optional<at::ScalarType> dtype = std::nullopt);
  /// The value itself; it brings its shape and dtype, and `get_variable` must be given no shape
  /// (TensorFlow: an initializer that is a constant).
  static Initializer constant_value(at::Tensor value);

  explicit operator bool() const { return static_cast<bool>(function_); }
  const std::string& name() const { return name_; }
  /// Set for `constant_value`: shape and dtype are known.
  const std::optional<at::Tensor>& value() const { return value_; }
  const std::optional<at::ScalarType>& dtype() const { return dtype_; }

  /// A new tensor on the CPU. Throws kInvalidArgument if the initializer does not fit the shape or
  /// dtype, naming both.
  at::Tensor operator()(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) const;

 private:
  std::string name_;
  Function function_;
  std::optional<at::ScalarType> dtype_;
  std::optional<at::Tensor> value_;
};

Initializer zeros_initializer();
Initializer ones_initializer();
Initializer constant_initializer(double value);
/// Normal, values beyond two deviations drawn again. TensorFlow: truncated_normal_initializer.
Initializer truncated_normal_initializer(double mean = 0.0, double stddev = 1.0);
Initializer random_normal_initializer(double mean = 0.0, double stddev = 1.0);
/// Uniform in [low, high).
Initializer random_uniform_initializer(double low = -0.05, double high = 0.05);

enum class FanMode { kFanIn, kFanOut, kFanAverage };
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };
struct VarianceScalingOptions {
  double scale = 1.0;
  FanMode mode = FanMode::kFanIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};
/// Variance `scale / fan`: normal truncated at two deviations (whose deviation is corrected for the
/// cut, as TensorFlow does), or uniform in +-sqrt(3 * scale / fan). TensorFlow:
/// variance_scaling_initializer. Throws kInvalidArgument for a scale that is not positive.
Initializer variance_scaling_initializer(const VarianceScalingOptions& options = {});

/// Glorot and Bengio, 2010: variance scaling with scale 1 and the average of the fans. The uniform
/// form is what `get_variable` uses where nothing is said; Slim calls it xavier_initializer.
Initializer glorot_uniform_initializer();
Initializer glorot_normal_initializer();
/// He et al., 2015: variance scaling with scale 2 and the inputs.
Initializer he_uniform_initializer();
Initializer he_normal_initializer();
/// Saxe et al., 2014: rows or columns (the fewer) orthonormal, times `gain`, of the variable seen
/// as a matrix [dimension 0, the rest]. At least two dimensions.
Initializer orthogonal_initializer(double gain = 1.0);

}  // namespace brigade::variables
