#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "brigade/variables/get_variable.h"

namespace brigade::layers {

// The gradient of a lookup is sparse: it has the rows that were looked up, each once, and the
// gradients of ids that occur several times are added in the order of the ids. With parameter
// servers (`ps::ParameterServerStrategy`) only these rows are pulled and pushed, and the update
// rule changes no others (`optim::apply_rows`); other strategies make it dense, with the same
// result for rules without momentum. A table that is looked up here must not be used as a whole in
// the same model: with parameter servers the other rows of the worker's copy are old, and a dense
// gradient of it is refused.
//
// All functions throw kInvalidArgument for ids that are not integral, and for an id outside of the
// table, naming it. Thread-safety: each replica from its own thread.

/// The rows `ids` (any shape, int64 or int32) of `table` [rows, ...]: [ids' shape..., ...].
/// TensorFlow: tf.nn.embedding_lookup.
at::Tensor embedding_lookup(const at::Tensor& table, const at::Tensor& ids);

/// The same for a table in parts, one after another along the rows, of rows of one size: the first
/// rows are in `parts[0]` (TensorFlow: partition_strategy="div"). The rows of all parts are fetched
/// at the same time.
at::Tensor embedding_lookup(std::span<const at::Tensor> parts, const at::Tensor& ids);

/// The same for a variable by name, partitioned or not, in a replica its own component:
///
///   const auto table = get_partitioned_variable("embeddings", {{1'000'000, 64}});
///   const at::Tensor rows = embedding_lookup(table, ids);
///
/// Throws kInvalidArgument if it is partitioned along another axis than the first.
at::Tensor embedding_lookup(const variables::PartitionedVariable& table, const at::Tensor& ids);

/// A lookup that is going to be made.
struct PlannedLookup {
  std::span<const at::Tensor> parts;  ///< of the table, as `Embedding::parts`
  at::Tensor ids;
};

/// Fetches the rows of several lookups at the same time: with parameter servers a step then has one
/// round trip for all of its tables, instead of one for each. Optional; the results are the same.
///
///   prefetch_rows({{users->parts(), user_ids}, {items->parts(), item_ids}});
///   return users->forward(user_ids) * items->forward(item_ids);
void prefetch_rows(const std::vector<PlannedLookup>& lookups);

}  // namespace brigade::layers
