#include "brigade/distribute/input/input_coordinator.h"

#include <ATen/ops/empty.h>

#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/comm/step_progress.h"
#include "brigade/io/state_json.h"

namespace brigade::distribute {

namespace {

using base::str_cat;
using comm::Facts;

constexpr std::string_view kPolicy = "AutoShardPolicy";
constexpr std::string_view kFiles = "list of files";
constexpr std::string_view kEpoch = "epoch";
constexpr std::string_view kKind = "kind of input";
constexpr std::string_view kReplication = "InputReplication";

Facts facts_of(const InputDescription& own) {
  using Policy = AutoShardPolicy;
  if (own.kind == BatchKind::kPerReplica) {
    const bool is_per_worker = own.replication == InputReplication::kPerWorker;
    return {{std::string(kKind), "distribute_from_function"},
            {std::string(kReplication), is_per_worker ? "kPerWorker" : "kPerReplica"}};
  }
  Facts facts = {{std::string(kKind), "distribute"},
                 {std::string(kPolicy), std::string(to_string(own.policy))}};
  if (own.policy == Policy::kFile) facts.push_back({std::string(kFiles), str_cat(own.files)});
  if (own.policy != Policy::kOff) {
    for (std::size_t i = 0; i < own.pipeline.size(); ++i)
      facts.push_back({str_cat("step ", i + 1, " of the dataset"), own.pipeline[i].text});
  }
  if (own.policy != Policy::kFile) facts.push_back({"number of batches", str_cat(own.cardinality)});
  if (own.policy == Policy::kData || own.policy == Policy::kHint)
    facts.push_back({std::string(kEpoch), str_cat(own.epoch)});
  return facts;
}

std::string_view advice_on(std::string_view name) {
  if (name == kKind) return "make the input in the same way in all of them.";
  if (name == kReplication) return "give all of them the same InputOptions.";
  if (name == kPolicy)
    return "AutoShardPolicy::kAuto depends on the dataset's number of files, so all workers must "
           "see the same number, or choose a policy.";
  if (name == kFiles)
    return "the same names must come in the same order everywhere (sort what a directory lists).";
  if (name == kEpoch)
    return "a dataset counts its epochs, so all workers must start the same number of iterators.";
  return "distribute needs the same dataset in all workers (an interleave without a cycle_length "
         "depends on the machine's cores); for different data use distribute_from_function.";
}

std::string difference(const comm::FactDifference& found) {
  return str_cat("The workers' inputs do not match: worker ", found.rank, " has another ",
                 found.name, " than worker 0, ", found.value.value_or("nothing"), " and not ",
                 found.first_value.value_or("nothing"), ": ", advice_on(found.name));
}

constexpr const char* kWorkers = "workers";

/// A position as text. A position in a source that cannot seek contains elements, which cannot be
/// sent as text.
std::string text_of(const io::StateTree& position) {
  const io::StateJson text = io::to_json(position);
  if (text.arrays.empty()) return text.json;
  throw Error(
      ErrorCode::kUnimplemented,
      "This worker's position in its own data contains elements, which a checkpoint of several "
      "workers cannot keep yet: use a source that can seek.");
}

struct Failures {
  std::vector<int> workers;
  std::string text;  // why
};

/// Which workers failed: a collective of all. `own` is empty if this worker did not fail.
Failures failures_of(comm::Communicator& workers, const std::string& own) {
  const std::vector<std::string> all = comm::all_gather_texts(workers, own);
  Failures failures;
  std::vector<std::string> texts;
  for (std::size_t worker = 0; worker < all.size(); ++worker) {
    if (all[worker].empty()) continue;
    failures.workers.push_back(static_cast<int>(worker));
    texts.push_back(str_cat("worker ", worker, ": ", all[worker]));
  }
  failures.text = base::join(texts, "; ");
  return failures;
}

/// A worker's step as a number that is sent: its examples, or one of these.
constexpr std::int64_t kEnded = -1;
constexpr std::int64_t kFailed = -2;

std::int64_t number_of(const WorkerStep& step) {
  if (step.state == WorkerStep::State::kHasBatch) return step.examples;
  return step.state == WorkerStep::State::kFailed ? kFailed : kEnded;
}

WorkerStep step_of(std::int64_t number) {
  if (number == kFailed) return {.state = WorkerStep::State::kFailed};
  if (number == kEnded) return {};
  return {.state = WorkerStep::State::kHasBatch, .examples = number};
}

}  // namespace

void check_same_input(comm::Communicator& workers, const InputDescription& own) {
  const auto found = comm::find_difference(workers, facts_of(own));
  if (found) throw Error(ErrorCode::kInvalidArgument, difference(*found));
}

InputCoordinator::InputCoordinator(WorkerLayout layout, InputSource source)
    : layout_(std::move(layout)), source_(source) {}

void InputCoordinator::compare(const InputDescription& own) {
  check_same_input(*layout_.workers, own);
  is_compared_ = true;
}

bool InputCoordinator::has_own_data() const {
  return source_ == InputSource::kOwn && layout_.workers != nullptr;
}

void InputCoordinator::AllWorkers::add(const WorkerStep& step) {
  with_batch += step.state == WorkerStep::State::kHasBatch ? 1 : 0;
  failed += step.state == WorkerStep::State::kFailed ? 1 : 0;
  examples += step.examples;
}

InputCoordinator::Agreement InputCoordinator::agree(const WorkerStep& own, LookAhead look_ahead) {
  if (!has_own_data()) {
    return {.any_has_data = own.state == WorkerStep::State::kHasBatch, .examples = own.examples};
  }
  const comm::PurposeScope purpose(layout_.progress.get(), {.use = comm::CallPurpose::Use::kInput});
  const std::optional<AllWorkers> known = take_next();
  const AllWorkers all = known ? *known : exchange(own);
  if (all.failed > 0) throw_failures("");
  if (all.with_batch > 0) {
    next_ = layout_.workers->piggyback(comm::PiggybackUse::kInput, [look = std::move(look_ahead)] {
      const std::optional<WorkerStep> step = look();
      return step ? std::optional(number_of(*step)) : std::nullopt;
    });
  }
  return {.any_has_data = all.with_batch > 0, .examples = all.examples};
}

void InputCoordinator::fail(const std::string& reason) {
  const comm::PurposeScope purpose(layout_.progress.get(), {.use = comm::CallPurpose::Use::kInput});
  const bool is_shared = has_own_data();
  const std::optional<AllWorkers> known = is_shared ? take_next() : std::nullopt;
  // The others ask for no reasons: by now they take the step, and wait for this worker's gradients.
  if (!is_shared || (known && known->failed == 0)) {
    if (layout_.progress) layout_.progress->skip_step("its input failed: " + reason);
    return;
  }
  try {
    if (!known) exchange({.state = WorkerStep::State::kFailed});
    throw_failures(reason.empty() ? "an error without a message" : reason);
  } catch (const std::exception&) {  // this worker throws its own error instead
  }
}

std::optional<InputCoordinator::AllWorkers> InputCoordinator::take_next() {
  const auto next = std::exchange(next_, nullptr);
  if (!next || !next->by_rank()) return std::nullopt;
  AllWorkers all;
  for (const std::int64_t number : *next->by_rank()) all.add(step_of(number));
  return all;
}

InputCoordinator::AllWorkers InputCoordinator::exchange(const WorkerStep& own) const {
  AllWorkers all;
  all.add(own);
  const at::Tensor numbers = at::empty({3}, at::kLong);
  auto* values = numbers.mutable_data_ptr<std::int64_t>();
  values[0] = all.with_batch;
  values[1] = all.examples;
  values[2] = all.failed;
  layout_.workers->all_reduce({&numbers, 1}, comm::ReduceOp::kSum)->wait();
  return {.with_batch = values[0], .failed = values[2], .examples = values[1]};
}

void InputCoordinator::throw_failures(const std::string& own) const {
  const Failures failures = failures_of(*layout_.workers, own);
  throw comm::StepAbandoned(
      layout_.progress ? layout_.progress->step() : 0, failures.workers,
      str_cat("The input of a step failed, so no worker takes it: ", failures.text));
}

io::StateTree InputCoordinator::save(const io::StateTree& position) const {
  if (!has_own_data()) return position;
  const comm::PurposeScope purpose(layout_.progress.get(), {.use = comm::CallPurpose::Use::kInput});
  std::string own;
  std::optional<Error> failure;
  try {
    own = text_of(position);
  } catch (const Error& error) {
    failure = error;
  }
  const std::int64_t failed =
      comm::all_reduce_number(*layout_.workers, failure ? 1 : 0, comm::ReduceOp::kSum);
  if (failed > 0) {
    const Failures failures = failures_of(*layout_.workers, failure ? failure->what() : "");
    if (failure) throw *failure;
    throw Error(ErrorCode::kAborted, "The workers' positions cannot be saved: " + failures.text);
  }
  io::StateTree state;
  state[kWorkers] = io::StateTree::list();
  for (const std::string& text : comm::all_gather_texts(*layout_.workers, own))
    state[kWorkers].push_back(io::from_json(text));
  return state;
}

const io::StateTree& InputCoordinator::restore(const io::StateTree& state) const {
  const std::size_t saved = state.has(kWorkers) ? state.at(kWorkers).size() : 0;
  check_argument(saved == 0 || saved == static_cast<std::size_t>(layout_.num_workers),
                 "The position, in separate data of each worker, was saved by ", saved,
                 " workers and is restored by ", layout_.num_workers,
                 ": start the same number of workers, or start a new epoch.");
  if (has_own_data() != (saved > 0)) {
    const auto description = [](bool is_own) {
      return is_own ? "its own data" : "all of the data";
    };
    throw Error(ErrorCode::kInvalidArgument, "The position was saved where each worker reads ",
                description(saved > 0), ", and is restored where each reads ",
                description(has_own_data()),
                ": use the same AutoShardPolicy as before, or start a new epoch.");
  }
  if (!has_own_data()) return state;
  return state.at(kWorkers, static_cast<std::size_t>(layout_.worker));
}

}  // namespace brigade::distribute
