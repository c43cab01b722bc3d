#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

/// Initial values of variables. Every initializer is a pure function of shape, dtype and seed,
/// computed on the CPU; `get_variable` derives the seed from the root seed and the variable's full
/// name. So initial values do not depend on the order of creation, on devices, or on the rest of
/// the model.
///
/// Weights are laid out as libtorch's: [outputs, inputs, window...]. `fan_in` is dimension 1 times
/// the window, `fan_out` is dimension 0 times the window; with one dimension both are its size, for
/// scalars both are 1.
///
/// Thread-safety: pure functions.
namespace brigade::variables {

/// Gives a variable its first value: a function of shape, dtype and seed, or the value itself. The
/// functions below make the usual ones. TensorFlow: tf.keras.initializers.Initializer.
///
/// Thread-safety: a value; calls from any thread.
class Initializer {
 public:
  using Function =
      std::function<at::Tensor(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed)>;

  /// Empty: the scope's initializer is used.
  Initializer() = default;
  /// `name` is used in messages. `dtype`, if set, is the only dtype that it supports.
  Initializer(std::string name, Function function,
              std::optional<at::ScalarType> dtype = std::nullopt);
  /// The given value with its shape and dtype; do not give `get_variable` a shape then (TensorFlow:
  /// an initializer that is a constant).
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

/// The same value everywhere.
Initializer zeros_initializer();
Initializer ones_initializer();
Initializer constant_initializer(double value);
/// Normal; values beyond two standard deviations are drawn again. TensorFlow:
/// truncated_normal_initializer.
Initializer truncated_normal_initializer(double mean = 0.0, double stddev = 1.0);
/// Normal. TensorFlow: random_normal_initializer.
Initializer random_normal_initializer(double mean = 0.0, double stddev = 1.0);
/// Uniform in [low, high).
Initializer random_uniform_initializer(double low = -0.05, double high = 0.05);

/// Which fan of a layer's weights counts: the inputs of an output, the outputs of an input, or
/// their mean.
enum class FanMode { kFanIn, kFanOut, kFanAverage };
/// The distribution of the values of `variance_scaling_initializer`.
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };
/// Options of `variance_scaling_initializer`: the variance is `scale` / fan.
struct VarianceScalingOptions {
  double scale = 1.0;
  FanMode mode = FanMode::kFanIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};
/// Variance `scale / fan`: normal truncated at two deviations (with the standard deviation
/// corrected for the truncation, as in TensorFlow), or uniform in +-sqrt(3 * scale / fan).
/// TensorFlow: variance_scaling_initializer. Throws kInvalidArgument for a scale that is not
/// positive.
Initializer variance_scaling_initializer(const VarianceScalingOptions& options = {});

/// Glorot and Bengio, 2010: variance scaling with scale 1 and the average of the fans. The uniform
/// form is the default of `get_variable`; Slim calls it xavier_initializer.
Initializer glorot_uniform_initializer();
Initializer glorot_normal_initializer();
/// He et al., 2015: variance scaling with scale 2 and the inputs.
Initializer he_uniform_initializer();
Initializer he_normal_initializer();
/// Saxe et al., 2014: the variable as a matrix [dimension 0, the rest] has orthonormal rows or
/// columns (whichever are fewer), times `gain`. At least two dimensions.
Initializer orthogonal_initializer(double gain = 1.0);

}  // namespace brigade::variables
