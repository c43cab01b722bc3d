#pragma once

#include <cstdint>

#include "brigade/data/core/node.h"

namespace brigade::data::internal {

/// What a transform with several inputs (zip, concatenate, ...) gives to the iterator of input
/// `input`, counted from 0: the job's options, and from the second input on another seed, so that
/// inputs that look alike do not shuffle alike.
IteratorOptions options_of_input(IteratorOptions options, std::uint64_t input);

/// What a transform that makes a dataset of each element (flat_map, interleave) gives to the
/// iterator of the dataset made from element `index`, counted in its walk: a seed that no other
/// element and no other shard has, and nothing left to share out.
IteratorOptions options_of_inner(IteratorOptions options, std::uint64_t index);

/// What a transform gives to an input that it goes back in by reading again: all its steps keep
/// their order.
IteratorOptions options_in_order(IteratorOptions options);

}  // namespace brigade::data::internal
