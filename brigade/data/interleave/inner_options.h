#pragma once

#include <cstdint>

#include "brigade/data/core/node.h"

namespace brigade::data::internal {

/// The options that a transform with several inputs (zip, concatenate, ...) passes to the iterator
/// of input `input`, counted from 0: the job's options, with a different seed for each input after
/// the first, so that equal inputs are not shuffled in the same order.
IteratorOptions options_of_input(IteratorOptions options, std::uint64_t input);

/// The options that a transform that makes a dataset from each element (flat_map, interleave)
/// passes to the iterator of the dataset made from element `index` of the pass: a seed that no
/// other element and no other shard has, and no sharding.
IteratorOptions options_of_inner(IteratorOptions options, std::uint64_t index);

/// The options for an input that is restored by reading it again: all its steps keep their order.
IteratorOptions options_in_order(IteratorOptions options);

}  // namespace brigade::data::internal
