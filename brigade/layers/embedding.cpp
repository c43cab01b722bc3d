#include "brigade/layers/embedding.h"

#include <ATen/ops/randint.h>

#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/embedding_lookup.h"
#include "brigade/variables/partitioner.h"

namespace brigade::layers {
namespace {

void check_embedding(const EmbeddingOptions& o) {
  check_argument(o.vocabulary_size >= 1 && o.embedding_dim >= 1, "Embedding: vocabulary_size is ",
                 o.vocabulary_size, " and embedding_dim is ", o.embedding_dim,
                 "; both must be set, to 1 or more.");
  check_argument(o.partitions >= 1 && o.partitions <= o.vocabulary_size,
                 "Embedding: partitions is ", o.partitions,
                 " and must be from 1 to vocabulary_size, ", o.vocabulary_size, ".");
  check_argument(c10::isFloatingType(o.dtype), "Embedding: the dtype is ", o.dtype,
                 " and must be of floating point.");
}

at::Tensor initial_table(const EmbeddingOptions& o) {
  const auto seed = static_cast<std::uint64_t>(
      at::randint(std::numeric_limits<std::int64_t>::max(), {1}, at::kLong).item<std::int64_t>());
  const variables::Initializer initializer =
      o.initializer ? o.initializer : variables::random_uniform_initializer();
  return initializer({o.vocabulary_size, o.embedding_dim}, o.dtype, seed);
}

}  // namespace

Embedding::Embedding(const EmbeddingOptions& options) : torch::nn::Module("Embedding") {
  check_embedding(options);
  const at::Tensor table = initial_table(options);
  if (options.partitions == 1) {
    parts_.push_back(register_parameter("weight", table));
    return;
  }
  std::int64_t begin = 0;
  for (const std::int64_t rows :
       variables::part_sizes(options.vocabulary_size, options.partitions)) {
    parts_.push_back(register_parameter(base::str_cat("weight_", parts_.size()),
                                        table.narrow(0, begin, rows).clone()));
    begin += rows;
  }
}

at::Tensor Embedding::forward(const at::Tensor& ids) {
  return embedding_lookup(parts_, ids);
}

}  // namespace brigade::layers
