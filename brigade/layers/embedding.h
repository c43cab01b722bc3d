#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "brigade/variables/initializer.h"

namespace brigade::layers {

/// Options of Embedding.
struct EmbeddingOptions {
  /// The number of rows; ids are 0 to `vocabulary_size` - 1. Must be set.
  std::int64_t vocabulary_size = 0;
  /// The number of values of each row. Must be set.
  std::int64_t embedding_dim = 0;
  /// Into how many variables the table is divided, by ranges of ids. The initial values do not
  /// depend on it; the names in checkpoints do. To share one variable among parameter servers, so
  /// that each serves a part of every batch's rows, `ParameterServerOptions::variable_partitioner`
  /// is better: it changes no names.
  int partitions = 1;
  /// Default: uniform in [-0.05, 0.05), as in Keras. Its seed is drawn from the default generator.
  variables::Initializer initializer = {};
  at::ScalarType dtype = at::kFloat;
};

/// A table of vectors, one for each id: words, users, products. Keras: Embedding.
///
///   struct Recommender : torch::nn::Module {
///     Recommender() {
///       users = register_module("users", std::make_shared<bg::layers::Embedding>(
///           bg::layers::EmbeddingOptions{.vocabulary_size = 1'000'000, .embedding_dim = 64}));
///     }
///     at::Tensor forward(const at::Tensor& ids) { return users->forward(ids).sum(-1); }
///     std::shared_ptr<bg::layers::Embedding> users;
///   };
///
/// It works with every strategy: `strategy.create<Recommender>()`. With parameter servers a step
/// pulls the rows that its batch needs and pushes the gradients of these rows, so it costs the same
/// whether the table has a thousand rows or a hundred million; the whole table is transferred when
/// a worker starts, and for checkpoints. Between steps the worker's copy has only the rows that its
/// batches asked for (`Strategy::fetch_state` brings all), so read the table in a run, through
/// `forward`. See `embedding_lookup` for gradients.
///
/// `torch::nn::Embedding` works too: with `sparse(true)` its gradient is pushed as rows, but every
/// step pulls the whole table.
///
/// Parameters: weight [vocabulary_size, embedding_dim]; with several partitions weight_0, weight_1,
/// ..., with rows as `variables::part_sizes` divides them.
///
/// Thread-safety: as a torch::nn::Module; each replica has its own.
class Embedding : public torch::nn::Module {
 public:
  /// Throws kInvalidArgument for sizes that are not positive, more partitions than rows, and a
  /// dtype that is not of floating point.
  explicit Embedding(const EmbeddingOptions& options);

  /// The rows of `ids` (any shape, int64 or int32): [ids' shape..., embedding_dim]. Throws
  /// kInvalidArgument for other dtypes and for an id outside of the vocabulary.
  at::Tensor forward(const at::Tensor& ids);

  /// The table's parts, in the order of their rows.
  const std::vector<at::Tensor>& parts() const { return parts_; }

 private:
  std::vector<at::Tensor> parts_;
};

}  // namespace brigade::layers
