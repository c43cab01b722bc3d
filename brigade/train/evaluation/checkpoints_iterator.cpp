#include "brigade/train/evaluation/checkpoints_iterator.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/checkpoint_directory.h"

namespace brigade::train {

using checkpoint::BrokenCheckpoint;
using checkpoint::Checkpoint;

namespace {

CheckpointsIteratorOptions completed(CheckpointsIteratorOptions options, const base::Clock& clock) {
  check_argument(options.poll.count() > 0, "Waiting for checkpoints: poll is ",
                 std::int64_t{options.poll.count()}, " ms and must be above 0.");
  check_argument(options.min_interval.count() >= 0,
                 "Waiting for checkpoints: min_interval must not be negative.");
  check_argument(!options.timeout || options.timeout->count() >= 0,
                 "Waiting for checkpoints: timeout must not be negative.");
  options.environment = completed(std::move(options.environment), clock);
  return options;
}

}  // namespace

CheckpointsIterator::CheckpointsIterator(io::Path directory, CheckpointsIteratorOptions options)
    : directory_(std::move(directory)), options_(completed(std::move(options), system_clock_)) {
  check_argument(!directory_.empty(), "Waiting for checkpoints: the directory's name is empty.");
}

std::optional<Checkpoint> CheckpointsIterator::next() {
  if (last_time_) wait_until(*last_time_ + options_.min_interval);
  while (!wait_for_new()) {
    if (options_.cancel.is_cancelled()) return std::nullopt;
    if (!options_.timeout_fn) {
      base::log_info("Timed out waiting for a checkpoint.");
      return std::nullopt;
    }
    if (options_.timeout_fn() == AfterTimeout::kEnd) return std::nullopt;
  }
  last_time_ = options_.environment.clock->now();
  return last_;
}

void CheckpointsIterator::wait_until(TimePoint time) const {
  while (!options_.cancel.is_cancelled()) {
    const auto left = time - options_.environment.clock->now();
    if (left.count() <= 0) return;
    options_.environment.wait(std::chrono::ceil<std::chrono::milliseconds>(left), options_.cancel);
  }
}

// Looks once more at the timeout: a checkpoint that was saved at the last moment counts.
bool CheckpointsIterator::wait_for_new() {
  const TimePoint begin = options_.environment.clock->now();
  while (!options_.cancel.is_cancelled()) {
    const TimePoint now = options_.environment.clock->now();
    if (auto found = find_new()) {
      last_ = std::move(found);
      return true;
    }
    TimePoint until = now + options_.poll;
    if (options_.timeout) {
      if (now - begin >= *options_.timeout) return false;
      until = std::min<TimePoint>(until, begin + *options_.timeout);
    }
    wait_until(until);
  }
  return false;
}

std::optional<Checkpoint> CheckpointsIterator::find_new() {
  const auto& files = options_.environment.files;
  std::optional<std::pair<io::Path, std::int64_t>> newest;
  for (const auto& entry : checkpoint::list_checkpoints(*files, directory_)) {
    if (entry.manifest) newest = {entry.path, entry.manifest->number};
    if (!entry.manifest) report({entry.path, entry.reason});
  }
  if (!newest || newest == examined_) return std::nullopt;
  examined_ = newest;
  checkpoint::LatestComplete found = checkpoint::find_latest_complete(files, directory_);
  for (BrokenCheckpoint& broken : found.broken) report(std::move(broken));
  if (!found.checkpoint || !is_new(*found.checkpoint)) return std::nullopt;
  return std::move(found.checkpoint);
}

bool CheckpointsIterator::is_new(const Checkpoint& found) const {
  return !last_ || found.manifest().number > last_->manifest().number ||
         !options_.environment.files->exists(last_->path());
}

void CheckpointsIterator::report(BrokenCheckpoint broken) {
  // The training has removed an old checkpoint in the meantime.
  if (!options_.environment.files->exists(broken.path)) return;
  if (!reported_.insert(broken.path).second) return;
  base::log_warning("Skipped the broken checkpoint ", broken.path.string(), ": ", broken.reason);
  passed_over_.push_back(std::move(broken));
}

std::optional<Checkpoint> wait_for_new_checkpoint(const io::Path& directory,
                                                  const std::optional<Checkpoint>& last,
                                                  const CheckpointsIteratorOptions& options) {
  CheckpointsIterator checkpoints(directory, options);
  checkpoints.last_ = last;
  if (!checkpoints.wait_for_new()) return std::nullopt;
  return checkpoints.last_;
}

}  // namespace brigade::train
