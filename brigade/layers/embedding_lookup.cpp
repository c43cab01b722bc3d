#include "brigade/layers/embedding_lookup.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/nonzero.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/variables/row_source.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// The rows `ids` [n] of `table`, with a sparse gradient.
struct RowLookup : Function<RowLookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["sizes"] = table.sizes().vec();
    return table.index_select(0, ids);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor ids = context->get_saved_variables().front();
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    return {comm::to_sparse(comm::sum_by_index(ids, gradients.front()), sizes), at::Tensor()};
  }
};

/// The sizes of a row.
at::IntArrayRef row_sizes(const at::Tensor& table) {
  return table.sizes().slice(1);
}

std::int64_t rows_in(std::span<const at::Tensor> parts) {
  check_argument(!parts.empty(), "embedding_lookup: a table needs at least one part.");
  std::int64_t rows = 0;
  for (const at::Tensor& part : parts) {
    check_argument(part.defined() && part.dim() >= 1,
                   "embedding_lookup: a table is a tensor of at least one dimension.");
    check_argument(row_sizes(part) == row_sizes(parts.front()),
                   "embedding_lookup: the parts of a table have the shapes ", parts.front().sizes(),
                   " and ", part.sizes(), "; their rows must be of one size.");
    rows += part.size(0);
  }
  return rows;
}

/// As int64 [n] on the table's device.
at::Tensor flat_ids(const at::Tensor& ids, std::int64_t rows, c10::Device device) {
  check_argument(ids.defined() && (ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt),
                 "embedding_lookup: ids are ",
                 ids.defined() ? c10::toString(ids.scalar_type()) : "undefined",
                 " and must be int64 or int32.");
  const at::Tensor flat = ids.detach().to(at::kLong).to(device).reshape({-1}).contiguous();
  if (flat.numel() == 0) return flat;
  const auto [least, most] = at::aminmax(flat);
  const std::int64_t low = least.item<std::int64_t>(), high = most.item<std::int64_t>();
  check_argument(low >= 0 && high < rows, "embedding_lookup: id ", low < 0 ? low : high,
                 " is not in the table, whose ids are 0 to ", rows - 1, ".");
  return flat;
}

/// A lookup in a table in parts.
struct DividedLookup {
  std::vector<variables::WantedRows> parts;
  std::vector<at::Tensor> positions;  // [part]: which of the ids are in it
};

DividedLookup divided(std::span<const at::Tensor> parts, const at::Tensor& flat) {
  if (parts.size() == 1) return {.parts = {{.table = parts.front(), .ids = flat}}, .positions = {}};
  DividedLookup lookup;
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    const std::int64_t end = begin + part.size(0);
    const at::Tensor is_in_part = flat.ge(begin).logical_and(flat.lt(end));
    lookup.positions.push_back(at::nonzero(is_in_part).reshape({-1}));
    lookup.parts.push_back(
        {.table = part, .ids = flat.index_select(0, lookup.positions.back()).sub(begin)});
    begin = end;
  }
  return lookup;
}

DividedLookup divided_lookup(std::span<const at::Tensor> parts, const at::Tensor& ids) {
  const std::int64_t rows = rows_in(parts);
  return divided(parts, flat_ids(ids, rows, parts.front().device()));
}

at::Tensor looked_up(const DividedLookup& lookup) {
  // All parts are looked up, those without ids as well: whether a variable counts an update must
  // not depend on how the table is divided.
  std::vector<at::Tensor> rows;
  for (const auto& [table, ids] : lookup.parts) rows.push_back(RowLookup::apply(table, ids));
  if (rows.size() == 1) return rows.front();
  return at::cat(rows).index_select(0, at::argsort(at::cat(lookup.positions)));
}

}  // namespace

at::Tensor embedding_lookup(std::span<const at::Tensor> parts, const at::Tensor& ids) {
  const DividedLookup lookup = divided_lookup(parts, ids);
  variables::fetch_rows(lookup.parts);
  std::vector<std::int64_t> sizes = ids.sizes().vec();
  for (const std::int64_t size : row_sizes(parts.front())) sizes.push_back(size);
  return looked_up(lookup).view(sizes);
}

at::Tensor embedding_lookup(const at::Tensor& table, const at::Tensor& ids) {
  return embedding_lookup(std::span(&table, 1), ids);
}

at::Tensor embedding_lookup(const variables::PartitionedVariable& table, const at::Tensor& ids) {
  check_argument(table.parts().size() == 1 || table.axis() == 0,
                 "embedding_lookup: ", base::quoted(table.name()), " is partitioned along axis ",
                 table.axis(), "; a table is partitioned along its rows, axis 0.");
  std::vector<at::Tensor> parts;
  for (const variables::Variable& part : table.parts()) parts.push_back(part.local());
  return embedding_lookup(parts, ids);
}

void prefetch_rows(const std::vector<PlannedLookup>& lookups) {
  std::vector<variables::WantedRows> wanted;
  for (const auto& [parts, ids] : lookups) {
    DividedLookup lookup = divided_lookup(parts, ids);
    for (variables::WantedRows& rows : lookup.parts) wanted.push_back(std::move(rows));
  }
  variables::fetch_rows(wanted);
}

}  // namespace brigade::layers
