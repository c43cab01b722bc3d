#include "brigade/train/model/coordinated_fit.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::train::internal {
namespace {

using distribute::RemoteData;
using distribute::RemoteFunction;
using variables::Variable;

constexpr const char* kTrain = "train";
constexpr const char* kEvaluate = "evaluate";
constexpr const char* kSums = "sums/";
constexpr const char* kStatistics = "statistics/";

// Enough that no worker waits for the chief.
constexpr std::int64_t kFunctionsOfAWorker = 4;
// Of an evaluation whose number of batches is not known.
constexpr std::int64_t kBatchesOfARange = 16;
// How soon a chief that waits notices that it should stop.
constexpr std::chrono::milliseconds kCheckStop{200};

/// Their own of each worker: no server has them.
std::vector<Variable> statistics_of(const Trainer& trainer) {
  std::vector<Variable> statistics;
  for (const Variable& each : trainer.network().variables()) {
    if (!each.trainable() && each.synchronization() == variables::Synchronization::kOnRead &&
        each.aggregation() != variables::Aggregation::kNone)
      statistics.push_back(each);
  }
  return statistics;
}

void add_statistics(RemoteData& data, const Trainer& trainer) {
  for (const Variable& each : statistics_of(trainer))
    data.tensors.push_back({base::str_cat(kStatistics, each.name()), each.read()});
}

void take_statistics(const RemoteData& data, const Trainer& trainer) {
  std::map<std::string, at::Tensor> values;
  for (const RemoteData::NamedTensor& each : data.tensors) values[each.name] = each.tensor;
  for (const Variable& each : statistics_of(trainer)) {
    const auto found = values.find(base::str_cat(kStatistics, each.name()));
    if (found != values.end()) each.assign(found->second);
  }
}

std::string name_of_sums(std::size_t metric) {
  return base::str_cat(kSums, metric, "/");
}

void add_sums(RemoteData& data, const Trainer& trainer) {
  const auto& metrics = trainer.all_metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const std::vector<at::Tensor> sums = metrics[i]->sums();
    for (std::size_t sum = 0; sum < sums.size(); ++sum)
      data.tensors.push_back({base::str_cat(name_of_sums(i), sum), sums[sum]});
  }
}

void merge_sums(const RemoteData& data, const Trainer& trainer) {
  const auto& metrics = trainer.all_metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    std::vector<at::Tensor> sums;
    for (const RemoteData::NamedTensor& each : data.tensors)
      if (each.name.starts_with(name_of_sums(i))) sums.push_back(each.tensor);
    metrics[i]->merge(sums);
  }
}

/// The metrics as they were.
class SavedMetrics {
 public:
  explicit SavedMetrics(const Trainer& trainer) : metrics_(trainer.all_metrics()) {
    for (const metrics::Metric* each : metrics_) saved_.push_back(each->save());
  }
  void restore() const {
    for (std::size_t i = 0; i < metrics_.size(); ++i) metrics_[i]->restore(saved_[i]);
  }

 private:
  const std::vector<const metrics::Metric*> metrics_;
  std::vector<io::StateTree> saved_;
};

}  // namespace

std::optional<std::int64_t> DividedBatches::count() const {
  const std::int64_t all = global_batches.cardinality();
  if (all < 0) return std::nullopt;
  return steps ? std::min(*steps, all) : all;
}

void check_ends(const DividedBatches& batches) {
  check_argument(batches.steps || batches.global_batches.cardinality() != data::kInfinite,
                 "The data of an evaluation never ends: say how many batches to evaluate "
                 "(EvaluateOptions::steps, FitOptions::validation_steps).");
}

RemoteFunction WorkersPart::training(EpochIterator& iterator) {
  return {.name = kTrain, .run = [this, &iterator](const RemoteData&) { return train(iterator); }};
}

RemoteFunction WorkersPart::evaluation(DividedBatches batches) {
  evaluated_ = std::move(batches);
  return {.name = kEvaluate,
          .run = [this](const RemoteData& arguments) { return evaluate(arguments); }};
}

RemoteData WorkersPart::train(EpochIterator& iterator) {
  auto batch = iterator.next();
  if (!batch) {
    iterator.start_next_epoch();
    batch = iterator.next();
  }
  check_argument(batch.has_value(), "This worker's part of the data has no batch.");
  trainer_.reset();
  const StepValues values = trainer_.train(*batch, class_weights_ ? &*class_weights_ : nullptr);
  RemoteData result;
  io::StateTree& sent = result.values["values"] = io::StateTree::dict();
  for (const std::string& name : values.names()) sent[name] = values.number(name);
  result.values["examples"] = batch->examples()->global;
  result.values["step"] = strategy_.global_step().value_or(0);
  add_sums(result, trainer_);
  add_statistics(result, trainer_);
  return result;
}

/// Other workers have changed the variables since this worker's last step.
void WorkersPart::begin_evaluation(const RemoteData& arguments) {
  const std::int64_t evaluation = arguments.values.as_int64("evaluation");
  if (evaluation == evaluation_) return;
  strategy_.fetch_state();
  take_statistics(arguments, trainer_);
  reader_.reset();
  evaluation_ = evaluation;
}

void WorkersPart::move_to(std::int64_t batch) {
  if (!reader_ || position_ > batch) {
    reader_.emplace(evaluated_->global_batches.reader(strategy_.seed()));
    position_ = 0;
  }
  while (position_ < batch && reader_->next()) ++position_;
}

RemoteData WorkersPart::evaluate(const RemoteData& arguments) {
  begin_evaluation(arguments);
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(trainer_.network());
  trainer_.reset();
  const std::int64_t first = arguments.values.as_int64("first");
  const std::int64_t count = arguments.values.as_int64("count");
  move_to(first);
  std::int64_t done = 0;
  if (position_ == first) {
    for (; done < count; ++done) {
      const auto batch = reader_->next();
      if (!batch) break;
      ++position_;
      trainer_.test(strategy_.split_batch(*batch));
    }
  }
  RemoteData result;
  result.values["batches"] = done;
  result.values["is_complete"] = done == count;
  add_sums(result, trainer_);
  return result;
}

ChiefsPart::ChiefsPart(distribute::Strategy& strategy, Trainer& trainer,
                       distribute::CoordinatedPhase& phase)
    : strategy_(strategy),
      trainer_(trainer),
      phase_(phase),
      ahead_(kFunctionsOfAWorker * strategy.coordination()->num_workers()),
      evaluations_(static_cast<std::int64_t>(std::random_device()())) {}

std::optional<RemoteData> ChiefsPart::next_result(const std::function<bool()>& should_stop) {
  while (!should_stop())
    if (auto result = phase_.next_result(kCheckStop)) return result;
  return std::nullopt;
}

std::optional<FitStep> ChiefsPart::step(const FitSteps::Request& request) {
  const auto wanted = static_cast<std::size_t>(std::min(request.left.value(), ahead_));
  while (phase_.unfinished() < wanted) phase_.schedule(kTrain, {});
  const auto result = next_result(request.should_stop);
  if (!result) return std::nullopt;
  merge_sums(*result, trainer_);
  take_statistics(*result, trainer_);
  strategy_.follow_global_step(result->values.as_int64("step"));
  FitStep step{.examples = result->values.as_int64("examples")};
  for (const auto& [name, value] : result->values.as_dict("values"))
    step.values.set(name, value.as_double());
  return step;
}

/// Ranges of batches in their order, so that each worker reads the data once.
std::optional<Logs> ChiefsPart::evaluate(const DividedBatches& batches,
                                         const std::function<bool()>& should_stop) {
  const std::optional<std::int64_t> count = batches.count();
  const std::int64_t size =
      count ? std::max<std::int64_t>(1, (*count + ahead_ - 1) / ahead_) : kBatchesOfARange;
  const std::optional<std::int64_t> end = count ? count : batches.steps;
  ++evaluations_;
  const SavedMetrics before(trainer_);
  trainer_.reset();
  std::int64_t next = 0, evaluated = 0;
  bool has_ended = false;
  while (true) {
    while (!has_ended && (!end || next < *end) &&
           static_cast<std::int64_t>(phase_.unfinished()) < ahead_) {
      RemoteData arguments;
      arguments.values["evaluation"] = evaluations_;
      arguments.values["first"] = next;
      arguments.values["count"] = end ? std::min(size, *end - next) : size;
      add_statistics(arguments, trainer_);
      phase_.schedule(kEvaluate, arguments);
      next += size;
    }
    if (phase_.unfinished() == 0) break;
    const auto result = next_result(should_stop);
    if (!result) {
      before.restore();
      return std::nullopt;
    }
    merge_sums(*result, trainer_);
    evaluated += result->values.as_int64("batches");
    if (!result->values.as_bool("is_complete")) has_ended = true;
  }
  check_argument(evaluated > 0, "There is no batch to evaluate.");
  Logs logs = trainer_.results();
  trainer_.reset();
  return logs;
}

void CoordinatedSteps::stop_early() {
  chief_.drop();
  strategy_.fetch_state();  // with the steps that were not dropped
}

std::optional<Logs> CoordinatedSteps::validate(const std::function<bool()>& should_stop) {
  if (!validation_) return std::nullopt;
  return chief_.evaluate(*validation_, should_stop);
}

io::StateTree outcome_of(const Logs& logs) {
  io::StateTree tree = io::StateTree::dict();
  for (const auto& [name, value] : logs) tree[name] = value;
  return tree;
}

Logs logs_of(const io::StateTree& outcome) {
  Logs logs;
  for (const auto& [name, value] : outcome.as_dict()) logs[name] = value.as_double();
  return logs;
}

io::StateTree outcome_of(const History& history) {
  io::StateTree tree;
  tree["stop_reason"] = history.stop_reason;
  tree["epochs"] = io::StateTree::list();
  for (const std::int64_t epoch : history.epochs) tree["epochs"].push_back(epoch);
  io::StateTree& logs = tree["logs"] = io::StateTree::dict();
  for (const auto& [name, values] : history.logs) {
    io::StateTree& list = logs[name] = io::StateTree::list();
    for (const double value : values) list.push_back(value);
  }
  return tree;
}

History history_of(const io::StateTree& outcome) {
  History history{.stop_reason = outcome.as_string("stop_reason")};
  for (const io::StateTree& epoch : outcome.as_list("epochs"))
    history.epochs.push_back(epoch.as_int64());
  for (const auto& [name, values] : outcome.as_dict("logs"))
    for (const io::StateTree& value : values.as_list())
      history.logs[name].push_back(value.as_double());
  return history;
}

}  // namespace brigade::train::internal
