#include "brigade/ps/server.h"

#include <algorithm>
#include <thread>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/metrics_page.h"
#include "brigade/ps/server/replicated_server.h"
#include "brigade/ps/server/server_epoch.h"
#include "brigade/ps/server/server_folder.h"
#include "brigade/ps/server_tasks.h"

namespace brigade::ps {
namespace {

constexpr const char* kServerJob = "ps";
constexpr const char* kReplicaJob = "ps_replica";
// A replica acts sooner than clients are lost.
constexpr int kTermsOfLease = 2;

constexpr std::size_t kMostPartBytes = std::size_t{16} << 20;

constexpr std::chrono::seconds kLongestPauseOfTicks{1};
// So that a lease that ends in this moment does not keep a core busy.
constexpr std::chrono::milliseconds kShortestPauseOfTicks{10};

cluster::Task server_task(const cluster::ClusterSpec& cluster, const std::string& job, int index) {
  const cluster::Task task = {.job = job, .index = index};
  check_argument(is_server_task(task),
                 "A parameter server is a task of the job 'ps', or 'ps_replica', not of ",
                 base::quoted(job),
                 ": tasks that train need no server, they connect to those of 'ps'.");
  check_replicas(cluster);
  cluster.task_address(task);  // throws kNotFound
  return task;
}

int count_tasks(const cluster::ClusterSpec& cluster) {
  std::size_t count = 0;
  for (const auto& [job, tasks] : cluster.as_map()) count += tasks.size();
  return static_cast<int>(count);
}

}  // namespace

bool is_server_task(const cluster::Task& task) {
  return task.job == kServerJob || task.job == kReplicaJob;
}

class Server::Impl {
  /// Calls `function` with the server, replicated or not.
  template <class Function>
  auto with_server(const Function& function) const {
    return pair_ ? function(*pair_) : function(*core_);
  }

 public:
  Impl(const cluster::ClusterSpec& cluster, const std::string& job, int index,
       const ServerOptions& options)
      : task_(server_task(cluster, job, index)),
        name_(cluster::to_string(task_)),
        lease_(options.lease),
        folder_(
            {.parent = options.folder, .server = index, .is_replica = task_.job != kServerJob}) {
    open(cluster, options);
    if (options.metrics_port)
      metrics_page_.emplace(*options.metrics_port, [this] { return metrics(); });
    log_start();
    ticker_ = std::jthread([this] { watch(); });
    cancellation_ = options.cancel.on_cancel([this] { shutdown(); });
  }
  ~Impl() {
    shutdown();
    ticker_.join();
    const ServerCounters counters = this->counters();
    base::log_info("Parameter server ", name_,
                   is_finished() ? " has finished"
                   : failure()   ? " has failed"
                                 : " ends",
                   ": ", counters.pushes, " pushes, ", counters.duplicates, " repeated, ",
                   counters.stale, " stale gradients, ", counters.pulls, " pulls, ",
                   counters.refused_calls, " refused calls.");
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string address() const { return listener_->address(); }
  std::optional<int> metrics_port() const {
    return metrics_page_ ? std::optional(metrics_page_->port()) : std::nullopt;
  }
  std::string metrics() const {
    return to_metrics(with_server([](auto& server) { return server.metrics(); }),
                      listener_->load());
  }
  bool is_paired() const { return pair_ && pair_->is_paired(); }
  ServerStatus status() const {
    return with_server([](auto& server) { return server.status(); });
  }
  ServerCounters counters() const {
    return with_server([](auto& server) { return server.counters(); });
  }

  void join() {
    const concurrency::MutexLock lock(mutex_);
    while (!is_ended_) changed_.wait(mutex_);
    if (const auto reason = failure())
      throw Error(ErrorCode::kDataLoss, "Parameter server ", name_,
                  " cannot continue; start it again in the same folder: ", *reason);
  }

  void shutdown() {
    with_server([](auto& server) { server.close(); });
    end();
  }

 private:
  bool is_finished() const {
    return with_server([](auto& server) { return server.is_finished(); });
  }
  std::optional<std::string> failure() const {
    return with_server([](auto& server) { return server.failure(); });
  }

  void open(const cluster::ClusterSpec& cluster, const ServerOptions& options) {
    const ServiceListenerOptions network{.address = cluster.task_address(task_),
                                         .key = options.key,
                                         .tasks = count_tasks(cluster),
                                         .max_message_bytes = options.max_message_bytes,
                                         .max_buffered_bytes = options.max_buffered_bytes};
    const auto other = other_process(cluster, task_);
    if (!other) {
      if (!folder_.is_temporary()) {
        const io::Path replica =
            options.folder / server_folder_name({.server = task_.index, .is_replica = true});
        begin_epoch_alone(*io::posix_file_system(), folder_.path(), replica);
      }
      core_ = std::make_unique<ServerCore>(io::posix_file_system(), core_options(cluster, options),
                                           clock_);
      listener_ = listen(*core_, network);
      return;
    }
    pair_ = std::make_unique<ReplicatedServer>(
        io::posix_file_system(),
        ReplicatedServerOptions{
            .core = core_options(cluster, options),
            .name = name_,
            .is_first = task_.job == kServerJob,
            .connect = [address = cluster.task_address(*other),
                        key = options.key] { return connect_to_pair(address, key); },
            .term = options.lease / kTermsOfLease,
            .part_bytes = std::min(kMostPartBytes, options.max_message_bytes / 2)},
        clock_);
    listener_ = listen(*pair_, network);
  }

  ServerCoreOptions core_options(const cluster::ClusterSpec& cluster,
                                 const ServerOptions& options) {
    return {.tasks = cluster.training_tasks(),
            .is_coordinator = task_.index == cluster.task_indices(kServerJob).front(),
            .lease = lease_,
            .store = {.folder = folder_.path(), .max_read_bytes = options.max_message_bytes},
            .snapshot_after_bytes = options.snapshot_after_bytes,
            .on_change = [this](TaskChange change, const cluster::Task& task,
                                std::int64_t incarnation) {
              log_task_change(name_, change, task, incarnation, lease_,
                              "The others train on without it.");
              wake();  // the job may be over
            }};
  }

  void log_start() const {
    base::log_info("Parameter server ", name_, " listens at ", address(),
                   " and keeps its variables in ", folder_.path(), ".");
    if (metrics_page_)
      base::log_info("Metrics of parameter server ", name_,
                     ": http://127.0.0.1:", metrics_page_->port(), "/metrics");
    if (!folder_.is_temporary()) return;
    base::log_warning("Parameter server ", name_,
                      " keeps its variables in a temporary folder, so that they are lost if it "
                      "dies: give it a folder that lasts.");
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
    return std::clamp(
        with_server([](auto& server) { return server.next_expiry(); }).value_or(latest),
        now + kShortestPauseOfTicks, latest);
  }

  /// The ticker's thread: ends leases, and `join` when the job is over.
  void watch() {
    for (;;) {
      with_server([](auto& server) { server.tick(); });
      if (is_finished() || failure()) end();
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
  std::unique_ptr<ServerCore> core_;              // of one process; calls wake()
  std::unique_ptr<ReplicatedServer> pair_;        // of two processes; calls wake()
  std::unique_ptr<ServiceListener> listener_;     // calls them
  std::optional<MetricsPage> metrics_page_;       // reads them
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
bool Server::is_paired() const {
  return impl_->is_paired();
}
ServerStatus Server::status() const {
  return impl_->status();
}
ServerCounters Server::counters() const {
  return impl_->counters();
}
std::string Server::metrics() const {
  return impl_->metrics();
}

}  // namespace brigade::ps
