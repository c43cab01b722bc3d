#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brigade/variables/partitioner.h"
#include "brigade/variables/variable.h"

namespace brigade::ps {

/// What a server keeps of a variable of the optimizer: all of it, or one of its parts, which a
/// partitioner has made. Workers know whole variables; servers know parts, each as a variable with
/// a name, slots and updates.
///
/// Thread-safety: a value.
struct VariablePart {
  std::string name;          ///< on the server: "weights", or of several parts "weights/part_0"
  std::size_t variable = 0;  ///< its index among the optimizer's
  std::vector<std::int64_t> shape;
  std::int64_t axis = 0;   ///< along which the variable is split
  std::int64_t begin = 0;  ///< of the part, along the axis
  bool is_whole = true;

  bool is_first() const { return begin == 0; }
  /// This part of a dense tensor of the variable's shape: an alias. Undefined for an undefined
  /// tensor. Of a gradient of rows: `rows_of_part`.
  at::Tensor of(const at::Tensor& whole) const;
};

/// The parts of all variables, in their order. An empty partitioner divides none, and partitions
/// that the program made itself (`Variable::slice`), and scalars, are not divided again. Throws
/// kInvalidArgument, naming the variable, for an answer of the partitioner that makes no sense, as
/// `variables::get_partitioned_variable`.
std::vector<VariablePart> parts_of(std::span<const variables::Variable> variables,
                                   const variables::Partitioner& partitioner);

}  // namespace brigade::ps
