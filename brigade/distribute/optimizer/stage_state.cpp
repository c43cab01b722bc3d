#include "brigade/distribute/optimizer/stage_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "brigade/base/error.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/io/sha256.h"

namespace brigade::distribute {

namespace {

using variables::Variable;

constexpr std::size_t kHashDigits = 32;  // 128 bits
constexpr char kChanged = '+';
constexpr char kUnchanged = '=';

std::string hash_of_values(const at::Tensor& value) {
  const at::Tensor dense = value.detach().contiguous();
  io::Sha256 hash;
  hash.update(std::span(static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()));
  return hash.hex_digest().substr(0, kHashDigits);
}

/// The length of the names of the modules in which both are: "a.b." of "a.b.mean" and "a.b.weight".
std::size_t common_modules(const std::string& a, const std::string& b) {
  const auto begin = a.begin();
  const std::string common(begin, std::ranges::mismatch(a, b).in1);
  const std::size_t last = common.find_last_of("./");
  return last == std::string::npos ? 0 : last + 1;
}

/// One item in all workers.
struct ItemChanges {
  std::vector<int> changed_in;   // the workers that have changed it
  std::set<std::string> values;  // the different values that they have
  bool is_equal = true;          // in all workers
};

ItemChanges changes_of(std::span<const std::string> reports, std::size_t item) {
  ItemChanges changes;
  const std::size_t begin = item * (kHashDigits + 1);
  for (std::size_t worker = 0; worker < reports.size(); ++worker) {
    const std::string entry = reports[worker].substr(begin, kHashDigits + 1);
    changes.is_equal =
        changes.is_equal && entry.substr(1) == reports[0].substr(begin + 1, kHashDigits);
    if (entry.front() != kChanged) continue;
    changes.changed_in.push_back(static_cast<int>(worker));
    changes.values.insert(entry.substr(1));
  }
  return changes;
}

}  // namespace

StageState::StageState(std::shared_ptr<const WorkerGroup> workers,
                       std::shared_ptr<optim::OptimizerState> state,
                       const variables::VariableStore* store)
    : workers_(std::move(workers)), state_(std::move(state)), store_(store) {}

std::vector<StageState::Item> StageState::items() const {
  std::vector<Item> items;
  const std::vector<Variable>& trained = state_->variables();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const Variable& variable = trained[i];
    items.push_back({.name = variable.name(),
                     .value = variable.component(0),
                     .write = [variable](const at::Tensor& value) { variable.assign(value); }});
  }
  const std::vector<Variable> statistics =
      store_ ? store_->non_trainable_variables() : std::vector<Variable>();
  for (const Variable& variable : statistics) {
    for (int replica = 0; replica < variable.num_components(); ++replica) {
      const at::Tensor component = variable.component(replica).detach();
      items.push_back({.name = variable.name(),
                       .value = component,
                       .write = [component](const at::Tensor& value) { component.copy_(value); }});
    }
  }
  const std::size_t slots = state_->rule().slots().size();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const at::Tensor values = state_->slot(i, slot, 0);
      items.push_back({.name = trained[i].name(),
                       .value = values,
                       .write = [values](const at::Tensor& value) { values.copy_(value); }});
    }
  }
  return items;
}

void StageState::begin() {
  if (!known_.empty()) return;
  for (const Item& item : items()) known_.push_back(hash_of_values(item.value));
}

void StageState::begin_again() {
  known_.clear();
  begin();
}

int StageState::owner_of(const std::string& name, const std::vector<int>& owners) const {
  const std::vector<Variable>& trained = state_->variables();
  const auto found = std::ranges::find(trained, name, &Variable::name);
  if (found != trained.end()) return owners[static_cast<std::size_t>(found - trained.begin())];
  std::set<int> nearest;
  std::size_t longest = 1;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const std::size_t common = common_modules(name, trained[i].name());
    if (owners[i] < 0 || common < longest) continue;
    if (common > longest) nearest.clear();
    longest = common;
    nearest.insert(owners[i]);
  }
  return nearest.size() == 1 ? *nearest.begin() : -1;
}

void StageState::exchange(const std::vector<int>& owners) {
  const at::NoGradGuard no_grad;
  const std::vector<Item> all = items();
  std::string report;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string hash = hash_of_values(all[i].value);
    report += i < known_.size() && known_[i] == hash ? kUnchanged : kChanged;
    report += hash;
  }
  comm::ProcessCommunicator& communicator = *workers_->communicator;
  const std::vector<std::string> reports = comm::all_gather_texts(communicator, report);
  for (const std::string& other : reports) {
    check_state(other.size() == report.size(),
                "The workers of a pipeline have other variables: make the same model, and the "
                "same optimizers, in every worker.");
  }
  std::map<int, std::vector<std::size_t>> sent_by;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ItemChanges changes = changes_of(reports, i);
    if (changes.is_equal || changes.changed_in.empty()) continue;
    const int owner =
        changes.values.size() == 1 ? changes.changed_in.front() : owner_of(all[i].name, owners);
    check_state(owner >= 0, "Several workers of a pipeline have changed the variable '",
                all[i].name,
                "' to other values, and none of them trains it: let the layers of "
                "one stage alone change it.");
    sent_by[owner].push_back(i);
  }
  for (const auto& [owner, sent] : sent_by) {
    std::vector<at::Tensor> values;
    for (const std::size_t i : sent) {
      values.push_back(owner == workers_->index() ? all[i].value.detach().contiguous()
                                                  : at::empty_like(all[i].value).contiguous());
    }
    communicator.broadcast(values, owner)->wait();
    if (owner == workers_->index()) continue;
    for (std::size_t k = 0; k < sent.size(); ++k) all[sent[k]].write(values[k]);
  }
  exchange_steps();
  begin_again();
}

void StageState::exchange(const optim::ExponentialMovingAverage& averages,
                          const std::vector<int>& owners) const {
  const at::NoGradGuard no_grad;
  std::map<int, std::vector<at::Tensor>> sent_by;
  for (std::size_t i = 0; i < averages.variables().size(); ++i) {
    const int owner = owner_of(averages.variables()[i].name(), owners);
    if (owner >= 0) sent_by[owner].push_back(averages.values()[i]);
  }
  for (const auto& [owner, values] : sent_by)
    workers_->communicator->broadcast(values, owner)->wait();
}

/// The workers that do not train a variable have counted no updates of it.
void StageState::exchange_steps() const {
  const auto count = static_cast<std::int64_t>(state_->variables().size());
  const at::Tensor steps = at::empty({count}, at::kLong);
  auto* const step = steps.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) step[i] = state_->step(static_cast<std::size_t>(i));
  workers_->communicator->all_reduce({&steps, 1}, comm::ReduceOp::kMax)->wait();
  for (std::int64_t i = 0; i < count; ++i) state_->set_step(static_cast<std::size_t>(i), step[i]);
}

}  // namespace brigade::distribute
