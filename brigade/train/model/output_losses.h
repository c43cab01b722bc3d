#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/input/named_tensors.h"
#include "brigade/train/model/compile_options.h"
#include "brigade/train/model/loss.h"
#include "brigade/train/model/model_batch.h"

/// The losses of a `Model` by output; for its sources only.
namespace brigade::train::internal {

/// Which label and which weights belong to an output: see `ModelBatch`.
///
/// Thread-safety: immutable.
class OutputLabels {
 public:
  /// The labels of outputs that have another label than their name says.
  explicit OutputLabels(std::map<std::string, std::string> names = {});

  /// The output of this name; the only one if the name is empty. Throws kInvalidArgument, with the
  /// existing names.
  static const at::Tensor& output(const input::NamedTensors& outputs, const std::string& name);
  /// Throws kInvalidArgument, with the existing names.
  const at::Tensor& label(const ModelBatch& batch, const input::NamedTensors& outputs,
                          const std::string& output) const;
  /// Nothing if the output is unweighted. Throws kInvalidArgument for weights that belong to no
  /// output.
  static std::optional<at::Tensor> weights(const ModelBatch& batch,
                                           const input::NamedTensors& outputs,
                                           const std::string& output);

 private:
  std::map<std::string, std::string> names_;
};

/// The losses of all outputs.
///
/// Thread-safety: immutable; a call is as thread-safe as the losses' functions.
class OutputLosses {
 public:
  struct Term {
    std::string output;  ///< empty: the only one
    Loss loss;
    double weight = 1.0;
  };

  /// Throws kInvalidArgument if both `loss` and `losses` are set, and for weights of outputs
  /// without a loss, or that are not finite.
  explicit OutputLosses(const CompileOptions& options);

  const std::vector<Term>& terms() const { return terms_; }
  bool empty() const { return terms_.empty(); }
  /// Whether the losses of outputs are reported: if there are several.
  bool has_parts() const { return terms_.size() > 1; }
  /// "main_loss", "aux_loss": the names of the parts.
  std::vector<std::string> names() const;

  struct Values {
    /// The sum of the weighted losses: one value per example, or a scalar.
    at::Tensor total;
    /// Of each output, without its weight in the sum; empty if there is one.
    std::vector<at::Tensor> parts = {};
  };
  /// The losses of a per-replica batch, weighted by its sample weights. Throws kInvalidArgument,
  /// naming the output, for missing outputs and labels, and for weights that do not fit.
  Values operator()(const ModelBatch& batch, const input::NamedTensors& outputs,
                    const OutputLabels& labels) const;

 private:
  std::vector<Term> terms_;
};

}  // namespace brigade::train::internal
