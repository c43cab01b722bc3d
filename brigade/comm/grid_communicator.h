#pragma once

#include <memory>

#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// The groups of a rank of a grid, whose ranks are counted row by row: rank r is in row r / columns
/// and in column r % columns.
struct GridGroups {
  /// The ranks of the same column, by row, and of the same row, by column.
  std::shared_ptr<ProcessCommunicator> column, row;
};

/// A communicator of all ranks of a grid that divides each call into two: one in every column, then
/// one in every row. Use it, rather than a third group, where ranks also make calls in only their
/// columns and rows, in this order: then a rank that has failed in a step reports it in its column
/// first, whatever it does next, and all ranks learn of it. `progress` leads those of both groups
/// (StepProgress::lead).
///
/// For small values: a reduction gathers the values of all ranks, and adds them by the
/// ReductionTree of all. `make_buffer` is not shared, and `all_reduce_subtrees` throws
/// kUnimplemented.
///
/// Thread-safety: as ProcessCommunicator.
std::unique_ptr<ProcessCommunicator> make_grid_communicator(GridGroups groups);

}  // namespace brigade::comm
