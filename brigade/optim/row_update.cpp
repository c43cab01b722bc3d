#include "brigade/optim/row_update.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::optim {

namespace {

// Kernels round an incomplete vector at the end of a range differently; no vector is longer.
constexpr std::int64_t kVectorBytes = 64;

/// Copies of some rows, one after another, with zeros up to a whole vector: so that their elements
/// are all in whole vectors.
struct PackedRows {
  at::Tensor range;  // flat, padded
  at::Tensor rows;   // [n, width]: a view of it
};

PackedRows packed(const at::Tensor& rows, std::int64_t vector) {
  const std::int64_t size = rows.numel();
  PackedRows result{.range = at::zeros({(size + vector - 1) / vector * vector}, rows.options()),
                    .rows = {}};
  result.rows = result.range.narrow(0, 0, size).view(rows.sizes());
  result.rows.copy_(rows);
  return result;
}

/// One tensor of an update: the parameter or a slot.
struct UpdatedTensor {
  at::Tensor table;  // [rows, width]
  PackedRows packed;
  at::Tensor tail;  // a copy of the elements after the last whole vector of the table
};

class RowUpdate {
 public:
  RowUpdate(const UpdateRule& rule, const RowUpdateArguments& arguments)
      : rule_(rule),
        step_(arguments.step),
        indices_(arguments.indices),
        width_(arguments.parameter.numel() / arguments.parameter.size(0)),
        vector_(kVectorBytes / arguments.parameter.element_size()),
        tail_begin_(arguments.parameter.numel() / vector_ * vector_),
        tail_size_(arguments.parameter.numel() - tail_begin_),
        gradients_(packed(arguments.gradients.reshape({-1, width_}), vector_)) {
    add(arguments.parameter);
    for (const at::Tensor& slot : arguments.slots) add(slot);
  }

  void run(const Hyperparameters& hyperparameters) {
    apply([](const UpdatedTensor& each) { return each.packed.range; }, gradients_.range,
          hyperparameters);
    if (tail_size_ > 0 && last_index() >= tail_begin_ / width_) update_tail(hyperparameters);
    for (const UpdatedTensor& each : tensors_)
      each.table.index_copy_(0, indices_, each.packed.rows);
  }

 private:
  void add(const at::Tensor& tensor) {
    UpdatedTensor each{.table = tensor.view({-1, width_}), .packed = {}, .tail = {}};
    each.packed = packed(at::index_select(each.table, 0, indices_), vector_);
    tensors_.push_back(std::move(each));
  }

  std::int64_t last_index() const { return indices_[-1].item<std::int64_t>(); }

  template <class RangeOf>
  void apply(const RangeOf& range_of, const at::Tensor& gradient,
             const Hyperparameters& hyperparameters) const {
    UpdateArguments arguments{.parameters = {range_of(tensors_.front())},
                              .gradients = {gradient},
                              .slots = {},
                              .step = step_};
    for (std::size_t i = 1; i < tensors_.size(); ++i)
      arguments.slots.push_back({range_of(tensors_[i])});
    rule_.apply(arguments, hyperparameters);
  }

  /// The elements after the last whole vector of the table, which belong to its last row or rows,
  /// are updated as a range that ends where the table ends.
  void update_tail(const Hyperparameters& hyperparameters) {
    for (UpdatedTensor& each : tensors_)
      each.tail = each.table.view({-1}).narrow(0, tail_begin_, tail_size_).clone();
    const at::Tensor gradient = at::zeros({tail_size_}, gradients_.range.options());
    for_parts_in_tail([&](std::int64_t in_packed, std::int64_t in_tail, std::int64_t size) {
      gradient.narrow(0, in_tail, size).copy_(gradients_.range.narrow(0, in_packed, size));
    });
    apply([](const UpdatedTensor& each) { return each.tail; }, gradient, hyperparameters);
    for_parts_in_tail([&](std::int64_t in_packed, std::int64_t in_tail, std::int64_t size) {
      for (const UpdatedTensor& each : tensors_)
        each.packed.range.narrow(0, in_packed, size).copy_(each.tail.narrow(0, in_tail, size));
    });
  }

  /// Calls `visit(begin in the packed range, begin in the tail, size)` for the part of each row
  /// that is in the tail.
  template <class Visit>
  void for_parts_in_tail(const Visit& visit) const {
    for (std::int64_t i = indices_.numel() - 1; i >= 0; --i) {
      const std::int64_t row = indices_[i].item<std::int64_t>() * width_;
      if (row + width_ <= tail_begin_) return;
      const std::int64_t begin = std::max(row, tail_begin_);
      visit(i * width_ + begin - row, begin - tail_begin_, row + width_ - begin);
    }
  }

  const UpdateRule& rule_;
  const std::int64_t step_;
  const at::Tensor indices_;
  const std::int64_t width_;   // elements of a row
  const std::int64_t vector_;  // elements of the longest vector
  const std::int64_t tail_begin_;
  const std::int64_t tail_size_;
  const PackedRows gradients_;
  std::vector<UpdatedTensor> tensors_;  // the parameter, then its slots
};

}  // namespace

void apply_rows(const UpdateRule& rule, const RowUpdateArguments& arguments,
                const Hyperparameters& hyperparameters) {
  if (rule.needs_whole_variables()) {
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The rule ", rule.name(),
                              " needs whole variables, so it cannot update "
                              "some rows: make the gradient dense."));
  }
  if (arguments.indices.numel() == 0 || arguments.parameter.numel() == 0) return;
  RowUpdate(rule, arguments).run(hyperparameters);
}

}  // namespace brigade::optim
