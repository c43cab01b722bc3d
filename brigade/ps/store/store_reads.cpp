#include <set>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/store_snapshot.h"

/// Values of a store from one moment: for workers, checkpoints and snapshots.
namespace brigade::ps {
ParameterStore::Pulled ParameterStore::pull(std::span<const std::string> names,
                                            std::span<const RowQuery> rows,
                                            ReplyMemory* memory) const {
  Pulled pulled;
  ParameterTickets tickets;
  ReplyExtent extent;
  {
    const concurrency::MutexLock lock(order_);
    extent = draw_tickets(names, Reads::kValues, tickets, rows);
    pulled.step = state_.step;
  }
  ReplyMemory own_memory;
  ReplyMemory& used = memory == nullptr ? own_memory : *memory;
  used.begin(extent);
  for (std::size_t i = 0; i < names.size(); ++i)
    pulled.values.push_back(tickets.use([&](const Parameter& own, std::uint64_t ticket) {
      return own.read(ticket, used.next(own.sizes(), own.dtype()), extent.bytes);
    }));
  for (const RowQuery& query : rows)
    pulled.rows.push_back(tickets.use([&](const Parameter& own, std::uint64_t ticket) {
      return own.read_rows(ticket, query.indices,
                           used.next(own.sizes_of_rows(query.indices.numel()), own.dtype()));
    }));
  check_still_usable();
  return pulled;
}

StoredStates ParameterStore::states(std::span<const std::string> names) const {
  StoredStates states;
  ParameterTickets tickets;
  {
    const concurrency::MutexLock lock(order_);
    draw_tickets(names, Reads::kStates, tickets);
    states.step = state_.step;
    if (is_durable(decision_record_)) states.decision = state_.last_decision;
  }
  for (const std::string& name : names)
    states.variables.push_back(
        {.name = name, .state = tickets.use([](const Parameter& own, std::uint64_t ticket) {
           return own.state(ticket);
         })});
  check_still_usable();
  return states;
}

void ParameterStore::snapshot() {
  const concurrency::MutexLock one_at_a_time(snapshots_);
  {
    const concurrency::MutexLock lock(order_);
    check_created();
  }
  const StoreMoment saved = collect({});
  write_snapshot(saved.covered, saved.contents);
  const concurrency::MutexLock lock(order_);
  log_bytes_ -= saved.log_bytes;
}

/// Everything, all from one moment between two changes.
StoreMoment ParameterStore::collect(const std::function<void(std::int64_t)>& begin) {
  StoreState state;
  std::vector<SavedVariable> variables;
  ParameterTickets tickets;
  StoreMoment collected;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    state = state_;
    collected.covered = log_->appended();
    collected.log_bytes = log_bytes_;
    for (const auto& [name, each] : parameters_)
      variables.push_back({.name = name, .settings = each->settings(), .state = {}});
    tickets.reserve(parameters_.size());
    if (begin) begin(collected.covered);
    for (const auto& [name, each] : parameters_) tickets.draw(*each);
  }
  for (SavedVariable& variable : variables)
    variable.state =
        tickets.use([](const Parameter& own, std::uint64_t ticket) { return own.state(ticket); });
  check_still_usable();
  collected.contents = snapshot_contents(state, variables);
  return collected;
}

void ParameterStore::write_snapshot(std::int64_t covered, const checkpoint::Contents& contents) {
  if (!saver_) {
    saver_ = std::make_unique<checkpoint::Saver>(
        files_, checkpoint::SaverOptions{.directory = options_.folder / "snapshots",
                                         .keep_last = 2,
                                         .writing = checkpoint::Writing::kForeground});
  }
  saver_->save(covered, contents);
  log_->remove_up_to(covered);
}

Parameter& ParameterStore::parameter_of(const RowQuery& query) const {
  Parameter& own = parameter(query.name);
  check_rows(query, own.sizes());
  return own;
}

ReplyExtent ParameterStore::draw_tickets(std::span<const std::string> names, Reads what,
                                         ParameterTickets& tickets,
                                         std::span<const RowQuery> rows) const {
  check_usable();
  std::vector<Parameter*> found;
  std::set<std::string_view> distinct;
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    check_argument(distinct.insert(name).second, "Variable ", base::quoted(name),
                   " is read twice in one call.");
    found.push_back(&parameter(name));
    const bool has_slots = what == Reads::kStates && found.back()->is_trainable();
    bytes += found.back()->bytes() * (1 + (has_slots ? state_.rule->slots().size() : 0));
  }
  distinct.clear();
  for (const RowQuery& query : rows) {
    check_argument(distinct.insert(query.name).second, "Rows of variable ",
                   base::quoted(query.name), " are read twice in one call.");
    found.push_back(&parameter_of(query));
    bytes += found.back()->row_bytes() * static_cast<std::uint64_t>(query.indices.numel());
  }
  check_argument(bytes <= options_.max_read_bytes, "These ", found.size(), " variables have ",
                 bytes, " bytes, and one call reads at most ", options_.max_read_bytes,
                 ": read them in several calls, or raise the server's limit.");
  tickets.reserve(found.size());
  for (Parameter* each : found) tickets.draw(*each);
  ReplyExtent extent{.tensors = found.size(), .bytes = bytes};
  for (const Parameter* each : found) extent.dimensions += each->sizes().size();
  return extent;
}

}  // namespace brigade::ps
