#include "brigade/optim/row_update.h"

#include <ATen/ops/index_select.h>

#include "brigade/base/error.h"

namespace brigade::optim {

namespace {

void update(const UpdateRule& rule, const RowUpdateArguments& table,
            const Hyperparameters& hyperparameters) {
  const auto rows_of = [&](const at::Tensor& tensor) {
    return at::index_select(tensor, 0, table.indices);
  };
  UpdateArguments rows{.parameters = {rows_of(table.parameter)},
                       .gradients = {table.gradients},
                       .slots = {},
                       .step = table.step};
  for (const at::Tensor& slot : table.slots) rows.slots.push_back({rows_of(slot)});
  rule.apply(rows, hyperparameters);
  table.parameter.index_copy_(0, table.indices, rows.parameters.front());
  for (std::size_t i = 0; i < table.slots.size(); ++i)
    table.slots[i].index_copy_(0, table.indices, rows.slots[i].front());
}

}  // namespace

void apply_rows(const UpdateRule& rule, const RowUpdateArguments& arguments,
                const Hyperparameters& hyperparameters) {
  if (rule.needs_whole_variables()) {
    throw Error(ErrorCode::kUnimplemented, "The rule ", rule.name(),
                " needs whole variables, so it cannot update some rows: make the gradient dense.");
  }
  if (arguments.indices.numel() == 0 || arguments.parameter.numel() == 0) return;
  update(rule, arguments, hyperparameters);
}

}  // namespace brigade::optim
