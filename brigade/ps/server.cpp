#include "brigade/ps/server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/metrics_page.h"
#include "brigade/ps/server/server_folder.h"

namespace brigade::ps {
namespace {

constexpr const char* kServerJob = "ps";

constexpr std::chrono::seconds kLongestPauseOfTicks{1};
// So that a lease that ends in this moment does not keep a core busy.
constexpr std::chrono::milliseconds kShortestPauseOfTicks{10};

cluster::Task server_task(const cluster::ClusterSpec& cluster, const std::string& job, int index) {
  check_argument(
      job == kServerJob,
      base::str_cat("A parameter server is a task of the job 'ps', not of ", base::quoted(job),
                    ": tasks that train need no server, they connect to those of 'ps'."));
  const cluster::Task task = {.job = job, .index = index};
  cluster.task_address(task);  // throws kNotFound
  return task;
}

int count_tasks(const cluster::ClusterSpec& cluster) {
  std::size_t count = 0;
  for (const auto& [job, tasks] : cluster.as_map()) count += tasks.size();
  return static_cast<int>(count);
}

std::string lease_text(std::chrono::milliseconds lease) {
  return base::str_cat(static_cast<double>(lease.count()) / 1000, " s");
}

}  // namespace

class Server::Impl {
 public:
  Impl(const cluster::ClusterSpec& cluster, const std::string& job, int index,
       const ServerOptions& options)
      : task_(server_task(cluster, job, index)),
        name_(cluster::to_string(task_)),
        lease_(options.lease),
        folder_({.parent = options.folder, .server = index}),
        core_(io::posix_file_system(), core_options(cluster, options), clock_),
        listener_(listen(core_, {.address = cluster.task_address(task_),
                                 .key = options.key,
                                 .tasks = count_tasks(cluster),
                                 .max_message_bytes = options.max_message_bytes,
                                 .max_buffered_bytes = options.max_buffered_bytes})) {
    if (options.metrics_port)
      metrics_page_.emplace(*options.metrics_port, [this] { return metrics(); });
    log_start();
    ticker_ = std::jthread([this] { watch(); });
    cancellation_ = options.cancel.on_cancel([this] { shutdown(); });
  }
  ~Impl() {
    shutdown();
    ticker_.join();
    const ServerCounters counters = core_.counters();
    base::log_info(base::str_cat("Parameter server ", name_,
                                 core_.is_finished() ? " has finished"
                                 : core_.failure()   ? " has failed"
                                                     : " ends",
                                 ": ", counters.pushes, " pushes, ", counters.duplicates,
                                 " repeated, ", counters.stale, " stale gradients, ",
                                 counters.pulls, " pulls, ", counters.refused_calls,
                                 " refused calls."));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string address() const { return listener_->address(); }
  std::optional<int> metrics_port() const {
    return metrics_page_ ? std::optional(metrics_page_->port()) : std::nullopt;
  }
  std::string metrics() const { return to_metrics(core_.metrics(), listener_->load()); }
  const ServerCore& core() const { return core_; }

  void join() {
    const concurrency::MutexLock lock(mutex_);
    while (!is_ended_) changed_.wait(mutex_);
    if (const auto failure = core_.failure())
      throw Error(ErrorCode::kDataLoss,
                  base::str_cat("Parameter server ", name_,
                                " cannot go on; start it again in the same folder: ", *failure));
  }

  void shutdown() {
    core_.close();
    end();
  }

 private:
  ServerCoreOptions core_options(const cluster::ClusterSpec& cluster,
                                 const ServerOptions& options) {
    return {.tasks = cluster.training_tasks(),
            .is_coordinator = task_.index == cluster.task_indices(kServerJob).front(),
            .lease = lease_,
            .store = {.folder = folder_.path(), .max_read_bytes = options.max_message_bytes},
            .snapshot_after_bytes = options.snapshot_after_bytes,
            .on_change = [this](TaskChange change, const cluster::Task& task,
                                std::int64_t incarnation) {
              log_change(change, task, incarnation);
              wake();  // the job may be over
            }};
  }

  void log_start() const {
    base::log_info(base::str_cat("Parameter server ", name_, " listens at ", address(),
                                 " and keeps its variables in ", folder_.path(), "."));
    if (metrics_page_)
      base::log_info(base::str_cat("Metrics of parameter server ", name_,
                                   ": http://127.0.0.1:", metrics_page_->port(), "/metrics"));
    if (!folder_.is_temporary()) return;
    base::log_warning(base::str_cat(
        "Parameter server ", name_,
        " keeps its variables in a temporary folder, so that they are lost if it dies: give it a "
        "folder that lasts."));
  }

  void log_change(TaskChange change, const cluster::Task& task, std::int64_t incarnation) const {
    const std::string who = base::str_cat(name_, ": ", cluster::to_string(task));
    switch (change) {
      case TaskChange::kJoined:
        base::log_info(base::str_cat(who, " has joined as incarnation ", incarnation, "."));
        return;
      case TaskChange::kReplaced:
        base::log_info(base::str_cat(who, ", incarnation ", incarnation, ", is replaced."));
        return;
      case TaskChange::kLost:
        base::log_warning(base::str_cat(who, " is lost: it was silent for ", lease_text(lease_),
                                        ". The others train on without it."));
        return;
      case TaskChange::kFinished:
        base::log_info(base::str_cat(who, " has finished."));
        return;
    }
  }

  void wake() {
    const concurrency::MutexLock lock(mutex_);
    is_awake_ = true;
    changed_.notify_all();
  }
  void end() {
    const concurrency::MutexLock lock(mutex_);
    is_ended_ = true;
    changed_.notify_all();
  }

  std::chrono::steady_clock::time_point next_tick() const {
    const auto now = clock_.now();
    const auto latest = now + kLongestPauseOfTicks;
    return std::clamp(core_.next_expiry().value_or(latest), now + kShortestPauseOfTicks, latest);
  }

  /// The ticker's thread: ends leases, and `join` when the job is over.
  void watch() {
    for (;;) {
      core_.tick();
      if (core_.is_finished() || core_.failure()) end();
      const auto next = next_tick();
      const concurrency::MutexLock lock(mutex_);
      while (!is_ended_ && !is_awake_ && clock_.now() < next) changed_.wait_until(mutex_, next);
      if (is_ended_) return;
      is_awake_ = false;
    }
  }

  const cluster::Task task_;
  const std::string name_;
  const std::chrono::milliseconds lease_;
  const base::SystemClock clock_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool is_awake_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_ended_ BRIGADE_GUARDED_BY(mutex_) = false;
  const ServerFolder folder_;
  ServerCore core_;                               // calls wake()
  std::unique_ptr<ServiceListener> listener_;     // calls core_
  std::optional<MetricsPage> metrics_page_;       // reads core_ and listener_
  std::jthread ticker_;                           // runs watch()
  concurrency::CancelRegistration cancellation_;  // calls shutdown()
};

Server::Server(const cluster::ClusterSpec& cluster, const std::string& job, int task,
               ServerOptions options)
    : impl_(std::make_unique<Impl>(cluster, job, task, options)) {}
Server::~Server() = default;

std::string Server::target() const {
  return base::str_cat("grpc://", impl_->address());
}
std::optional<int> Server::metrics_port() const {
  return impl_->metrics_port();
}
void Server::join() {
  impl_->join();
}
void Server::shutdown() {
  impl_->shutdown();
}
ServerStatus Server::status() const {
  return impl_->core().status();
}
ServerCounters Server::counters() const {
  return impl_->core().counters();
}
std::string Server::metrics() const {
  return impl_->metrics();
}

}  // namespace brigade::ps
