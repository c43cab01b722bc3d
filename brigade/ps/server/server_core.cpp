#include "brigade/ps/server/server_core.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/server/job_config.h"

namespace brigade::ps {
namespace {

std::vector<std::string> task_names(const std::vector<cluster::Task>& tasks) {
  std::vector<std::string> names;
  names.reserve(tasks.size());
  for (const cluster::Task& task : tasks) names.push_back(cluster::to_string(task));
  return names;
}

}  // namespace

ServerCore::ServerCore(std::shared_ptr<io::FileSystem> files, const ServerCoreOptions& options,
                       const base::Clock& clock)
    : ServerCore(open_store(std::move(files), options.store, options.snapshot_after_bytes), options,
                 clock) {}

ServerCore::ServerCore(OpenStore store, ServerCoreOptions options, const base::Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      names_(task_names(options_.tasks)),
      open_(std::move(store)),
      store_(*open_.store),
      latencies_(*open_.latencies),
      snapshots_(*open_.snapshots),
      log_syncs_(*open_.log_syncs),
      registry_(names_, options_.lease) {
  const concurrency::MutexLock lock(mutex_);
  if (store_.is_created()) job_ = job_from_state(store_.job());
  restore_registry();
}

void ServerCore::restore_registry() {
  io::StateTree incarnations = io::StateTree::dict();
  for (std::size_t rank = 0; rank < names_.size(); ++rank) {
    const std::int64_t number = store_.incarnation(static_cast<int>(rank));
    if (number > 0) incarnations[names_[rank]] = number;
  }
  registry_.restore(incarnations);
  for (std::size_t rank = 0; rank < names_.size(); ++rank)
    if (store_.has_finished(static_cast<int>(rank)))
      registry_.restore_finished(names_[rank], clock_.now());
}

void ServerCore::throw_if_failed(const std::exception& error) {
  if (!store_.has_failed()) return;
  const concurrency::MutexLock lock(mutex_);
  if (!failure_) failure_ = base::without_stack_trace(error.what());
  changed_.notify_all();
  check_open();
}

void ServerCore::check_open() const {
  if (failure_)
    throw Error(ErrorCode::kUnavailable,
                "The parameter server cannot continue until it is started again: ", *failure_);
  if (is_closed_) throw Error(ErrorCode::kUnavailable, "The parameter server is ending.");
}

void ServerCore::tick() {
  std::vector<Change> changes;
  {
    const concurrency::MutexLock lock(mutex_);
    for (Incarnation& lost : registry_.expire(clock_.now())) {
      if (gate_) gate_->leave(registry_.rank(lost.task));
      ++counters_.lost_leases;
      changes.push_back({TaskChange::kLost, std::move(lost)});
    }
    changed_.notify_all();  // waits end by clock_, too
  }
  report(changes);
  save_the_end();
}

std::optional<ServerCore::Time> ServerCore::next_expiry() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.next_expiry();
}

bool ServerCore::has_chief_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.has_finished(names_.front());
}

bool ServerCore::is_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.is_finished(clock_.now());
}

std::optional<std::string> ServerCore::failure() const {
  const concurrency::MutexLock lock(mutex_);
  return failure_;
}

ServerStatus ServerCore::status() const {
  ServerStatus status = {.is_created = store_.is_created(),
                         .is_ready = store_.is_ready(),
                         .step = store_.step(),
                         .learning_rate = store_.learning_rate()};
  const concurrency::MutexLock lock(mutex_);
  if (job_)
    status.job = *job_;
  else
    status.is_created = false;  // `create` has not returned: nobody may see a job without its mode
  return status;
}

ServerCounters ServerCore::counters() const {
  const concurrency::MutexLock lock(mutex_);
  return counters_;
}

ServerMetrics ServerCore::metrics() const {
  ServerMetrics metrics = {.status = status(),
                           .waiting_records = store_.waiting_records(),
                           .log_bytes = store_.log_bytes(),
                           .pushes = latencies_.pushes.counts(),
                           .pulls = latencies_.pulls.counts(),
                           .log_syncs = latencies_.log_syncs.counts()};
  const concurrency::MutexLock lock(mutex_);
  metrics.counters = counters_;
  metrics.members = static_cast<std::int64_t>(registry_.holders().size());
  return metrics;
}

void ServerCore::close() {
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

OpenStore ServerCore::release(std::unique_ptr<ServerCore> core) {
  core->close();
  return std::move(core->open_);
}

StoreMoment ServerCore::moment(const std::function<void(std::int64_t covered)>& begin) {
  return serve([&] { return store_.moment(begin); });
}

}  // namespace brigade::ps
