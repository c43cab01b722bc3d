#include "brigade/ps/server/server_core.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/server/server_core_impl.h"

namespace brigade::ps {
namespace {

std::vector<std::string> task_names(const std::vector<cluster::Task>& tasks) {
  std::vector<std::string> names;
  names.reserve(tasks.size());
  for (const cluster::Task& task : tasks) names.push_back(cluster::to_string(task));
  return names;
}

}  // namespace

ServerCore::Impl::Impl(OpenStore store, ServerCoreOptions options, const base::Clock& clock)
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

void ServerCore::Impl::restore_registry() {
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

void ServerCore::Impl::throw_if_failed(const std::exception& error) {
  if (!store_.has_failed()) return;
  const concurrency::MutexLock lock(mutex_);
  if (!failure_) failure_ = base::without_stack_trace(error.what());
  changed_.notify_all();
  check_open();
}

void ServerCore::Impl::check_open() const {
  if (failure_)
    throw Error(ErrorCode::kUnavailable,
                base::str_cat("The parameter server cannot continue until it is started again: ",
                              *failure_));
  if (is_closed_) throw Error(ErrorCode::kUnavailable, "The parameter server is ending.");
}

void ServerCore::Impl::tick() {
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

std::optional<ServerCore::Time> ServerCore::Impl::next_expiry() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.next_expiry();
}

bool ServerCore::Impl::has_chief_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.has_finished(names_.front());
}

bool ServerCore::Impl::is_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.is_finished(clock_.now());
}

std::optional<std::string> ServerCore::Impl::failure() const {
  const concurrency::MutexLock lock(mutex_);
  return failure_;
}

ServerStatus ServerCore::Impl::status() const {
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

ServerCounters ServerCore::Impl::counters() const {
  const concurrency::MutexLock lock(mutex_);
  return counters_;
}

ServerMetrics ServerCore::Impl::metrics() const {
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

void ServerCore::Impl::close() {
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

ServerCore::ServerCore(std::shared_ptr<io::FileSystem> files, const ServerCoreOptions& options,
                       const base::Clock& clock)
    : ServerCore(open_store(std::move(files), options.store, options.snapshot_after_bytes), options,
                 clock) {}
ServerCore::ServerCore(OpenStore store, ServerCoreOptions options, const base::Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(options), clock)) {}
ServerCore::~ServerCore() = default;

OpenStore ServerCore::release(std::unique_ptr<ServerCore> core) {
  core->close();
  return core->impl_->release();
}

Grant ServerCore::join(const JoinRequest& request, Time deadline) {
  return impl_->serve([&] { return impl_->join(request, deadline); });
}
ServerStatus ServerCore::renew(const std::string& token, Time) {
  return impl_->serve([&] { return impl_->renew(token); });
}
void ServerCore::leave(const std::string& token, Time deadline) {
  impl_->serve([&] { return impl_->leave(token, deadline); });
}
ServerStatus ServerCore::create(const std::string& token, const CreateRequest& request,
                                Time deadline) {
  return impl_->serve([&] { return impl_->create(token, request, deadline); });
}
void ServerCore::assign(const std::string& token, const std::vector<NamedState>& variables,
                        std::int64_t step, Time deadline) {
  impl_->serve([&] { return impl_->assign(token, variables, step, deadline); });
}
void ServerCore::set_ready(const std::string& token, Time deadline) {
  impl_->serve([&] { return impl_->set_ready(token, deadline); });
}
void ServerCore::set_learning_rate(const std::string& token, double rate, Time deadline) {
  impl_->serve([&] { return impl_->set_learning_rate(token, rate, deadline); });
}
ExchangeReply ServerCore::exchange(const std::string& token, const ExchangeRequest& request,
                                   Time deadline) {
  return impl_->serve([&] { return impl_->exchange(token, request, deadline); });
}
StoredStates ServerCore::states(const std::string& token, const std::vector<std::string>& names,
                                Time) {
  return impl_->serve([&] { return impl_->states(token, names); });
}
BeginStepReply ServerCore::begin_step(const std::string& token, const BeginStepRequest& request,
                                      Time deadline) {
  return impl_->serve([&] { return impl_->begin_step(token, request, deadline); });
}

StoreMoment ServerCore::moment(const std::function<void(std::int64_t covered)>& begin) {
  return impl_->serve([&] { return impl_->store().moment(begin); });
}

void ServerCore::tick() {
  impl_->tick();
}
std::optional<ServerCore::Time> ServerCore::next_expiry() const {
  return impl_->next_expiry();
}
bool ServerCore::has_chief_finished() const {
  return impl_->has_chief_finished();
}
bool ServerCore::is_finished() const {
  return impl_->is_finished();
}
std::optional<std::string> ServerCore::failure() const {
  return impl_->failure();
}
ServerStatus ServerCore::status() const {
  return impl_->status();
}
ServerCounters ServerCore::counters() const {
  return impl_->counters();
}
ServerMetrics ServerCore::metrics() const {
  return impl_->metrics();
}
void ServerCore::close() {
  impl_->close();
}

}  // namespace brigade::ps
