#include "brigade/ps/client/row_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/comm/local/row_sums.h"

namespace brigade::ps {

namespace {

using variables::Variable;

std::vector<std::int64_t> distinct_ids(const at::Tensor& ids) {
  const at::Tensor list = ids.to(at::kCPU).contiguous();
  const auto* first = list.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> distinct(first, first + list.numel());
  std::ranges::sort(distinct);
  const auto rest = std::ranges::unique(distinct);
  distinct.erase(rest.begin(), rest.end());
  return distinct;
}

std::vector<std::int64_t> without(const std::vector<std::int64_t>& all,
                                  const std::vector<std::int64_t>& some) {
  std::vector<std::int64_t> rest;
  std::ranges::set_difference(all, some, std::back_inserter(rest));
  return rest;
}

std::vector<std::int64_t> with(const std::vector<std::int64_t>& some,
                               const std::vector<std::int64_t>& others) {
  std::vector<std::int64_t> all;
  std::ranges::set_union(some, others, std::back_inserter(all));
  return all;
}

/// Which of these rows of a variable are in a part, counted from its begin; undefined: none.
at::Tensor indices_in(const VariablePart& part, const std::vector<std::int64_t>& rows) {
  const bool has_all = part.is_whole || part.axis != 0;
  const std::int64_t begin = has_all ? 0 : part.begin;
  const auto first = has_all ? rows.begin() : std::ranges::lower_bound(rows, begin);
  const auto last =
      has_all ? rows.end() : std::ranges::lower_bound(rows, begin + part.shape.front());
  if (first == last) return {};
  const at::Tensor indices = at::empty({last - first}, at::kLong);
  std::transform(first, last, indices.mutable_data_ptr<std::int64_t>(),
                 [begin](std::int64_t row) { return row - begin; });
  return indices;
}

/// The variable in a flat buffer of its storage.
at::Tensor variable_in(const at::Tensor& flat, const Variable& variable) {
  return flat.narrow(0, variable.offset(), variable.numel()).view(variable.shape());
}

}  // namespace

RowCopies::RowCopies(optim::OptimizerState& state, const std::vector<VariablePart>& parts,
                     ParameterClient& client)
    : state_(state), parts_(parts), client_(client) {
  const concurrency::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < state_.variables().size(); ++i) {
    const Variable& variable = state_.variables()[i];
    is_by_rows_.push_back(false);
    current_.emplace_back(static_cast<std::size_t>(variable.num_components()));
    if (variable.numel() == 0 || state_.is_frozen(i)) continue;  // these never change
    for (int replica = 0; replica < variable.num_components(); ++replica)
      variables_.emplace(variable.component(replica).const_data_ptr(), i);
  }
}

bool RowCopies::is_used() const {
  const concurrency::MutexLock lock(mutex_);
  return std::ranges::find(is_by_rows_, true) != is_by_rows_.end();
}

void RowCopies::forget() {
  const concurrency::MutexLock lock(mutex_);
  for (auto& variable : current_)
    for (Indices& rows : variable) rows.clear();
}

void RowCopies::fetch(int replica, std::span<const variables::WantedRows> wanted) {
  const at::NoGradGuard no_grad;
  const concurrency::MutexLock lock(mutex_);
  const std::vector<Missing> missing = missing_rows(replica, wanted);
  if (missing.empty()) return;
  pull(replica, missing);
  for (const auto& [variable, rows] : missing) {
    Indices& current = current_[variable][memory_of(variable, replica)];
    current = with(current, rows);
  }
}

void RowCopies::check_gradients(std::span<const at::Tensor> gradients) const {
  const concurrency::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!is_by_rows_[i] || !gradients[i].defined() || comm::has_rows(gradients[i])) continue;
    throw Error(ErrorCode::kFailedPrecondition, "The gradient of ",
                base::quoted(state_.variables()[i].name()),
                " is dense, and the model looks rows of it up (Embedding), so with parameter "
                "servers this worker has old values of the others: use the table only through "
                "Embedding or embedding_lookup, and keep its gradient sparse.");
  }
}

std::optional<std::size_t> RowCopies::variable_of(const at::Tensor& table) const {
  const auto found = variables_.find(table.const_data_ptr());
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

/// Replicas that read one memory need its rows once.
std::size_t RowCopies::memory_of(std::size_t variable, int replica) const {
  const variables::VariableStorage& storage = *state_.variables()[variable].storage();
  return storage.is_shared() && !storage.is_cached(replica) ? 0 : static_cast<std::size_t>(replica);
}

std::vector<RowCopies::Missing> RowCopies::missing_rows(
    int replica, std::span<const variables::WantedRows> wanted) {
  std::vector<Missing> missing;
  for (const auto& [table, ids] : wanted) {
    const auto variable = variable_of(table);
    if (!variable) continue;
    read_by_rows(*variable);
    Indices rows = without(distinct_ids(ids), current_[*variable][memory_of(*variable, replica)]);
    if (rows.empty()) continue;
    const auto same = std::ranges::find(missing, *variable, &Missing::variable);
    if (same == missing.end()) {
      missing.push_back({.variable = *variable, .rows = std::move(rows)});
    } else {
      same->rows = with(same->rows, rows);
    }
  }
  return missing;
}

void RowCopies::pull(int replica, const std::vector<Missing>& missing) {
  std::vector<at::Tensor> indices(parts_.size());
  for (const auto& [variable, rows] : missing)
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].variable == variable) indices[i] = indices_in(parts_[i], rows);
  const std::vector<at::Tensor> rows = client_.pull_rows(indices);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (indices[i].defined()) write(replica, parts_[i], indices[i], rows[i]);
}

void RowCopies::read_by_rows(std::size_t variable) {
  if (is_by_rows_[variable]) return;
  is_by_rows_[variable] = true;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].variable == variable) client_.pull_by_rows(i);
  if (state_.rule().row_updates() == optim::RowUpdates::kExact) return;
  base::log_info("Rows of ", base::quoted(state_.variables()[variable].name()),
                 " are updated lazily by ", state_.rule().name(),
                 ": those without a gradient in a step do not change in it.");
}

void RowCopies::write(int replica, const VariablePart& part, const at::Tensor& indices,
                      const at::Tensor& rows) const {
  const Variable& own = state_.variables()[part.variable];
  std::vector<std::int64_t> wanted = part.shape;
  wanted.front() = indices.numel();
  check_state(rows.sizes() == wanted && rows.scalar_type() == own.dtype(), "Rows of ",
              base::quoted(part.name), " are ", at::toString(rows.scalar_type()), rows.sizes(),
              " on the parameter servers, and ", at::toString(own.dtype()), at::IntArrayRef(wanted),
              " here: run the program that the job's chief runs.");
  const at::AutoDispatchBelowADInplaceOrView below;  // as all values that come from the servers
  const variables::VariableStorage& storage = *own.storage();
  std::vector<at::Tensor> copies = {storage.master(replica)};
  if (storage.is_cached(replica)) copies.push_back(storage.buffer(replica));
  for (const at::Tensor& flat : copies)
    part.of(variable_in(flat, own))
        .index_copy_(0, indices.to(flat.device()), rows.to(flat.device()));
}

at::Tensor rows_of_part(const VariablePart& part, const at::Tensor& gradient) {
  if (part.is_whole) return gradient;
  const auto [indices, values] = comm::rows_of(gradient);
  if (part.axis != 0) {
    const std::int64_t size = part.shape[static_cast<std::size_t>(part.axis)];
    return comm::to_sparse(
        {.indices = indices, .values = values.narrow(part.axis, part.begin, size).contiguous()},
        part.shape);
  }
  const at::Tensor list = indices.to(at::kCPU);
  const auto* first = list.const_data_ptr<std::int64_t>();
  const auto* last = first + list.numel();
  const std::int64_t begin = std::lower_bound(first, last, part.begin) - first;
  const std::int64_t end = std::lower_bound(first, last, part.begin + part.shape.front()) - first;
  return comm::to_sparse({.indices = indices.narrow(0, begin, end - begin) - part.begin,
                          .values = values.narrow(0, begin, end - begin)},
                         part.shape);
}

}  // namespace brigade::ps
