#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/weights_file.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"
#include "brigade/models/registry.h"
#include "brigade/variables/variable.h"

namespace brigade::command {

/// The weights that `--init-from` names: a model directory, which stands for the weights of its
/// training, a checkpoint, a directory of checkpoints, or a file of weights, also one with
/// torchvision's names. Read when this is made.
class InitialWeights {
 public:
  /// Throws kNotFound if there is nothing, and as `checkpoint::read_weights_file` and
  /// `train::open_checkpoint`.
  explicit InitialWeights(const io::Path& path,
                          checkpoint::HashMismatch mismatch = checkpoint::HashMismatch::kRefuse);

  /// The options of the model called `model` that these weights fit, as far as the weights show
  /// them: classes and the original. The others are those of `options`.
  models::ModelOptions fitting(const std::string& model, models::ModelOptions options) const;
  /// The original that the weights are of, if the model has several and the weights show it.
  std::optional<models::Original> original(const std::string& model) const;

  /// Sets the variables of the model, but for those called `excluded`. Throws an error that lists
  /// the differences if names or shapes differ; then nothing is set.
  void assign(std::span<const variables::Variable> variables, const std::string& model,
              const std::vector<std::string>& excluded = {}) const;

 private:
  const at::Tensor* find(const std::string& name) const;

  io::Path path_;
  checkpoint::WeightsFile file_;
};

}  // namespace brigade::command
