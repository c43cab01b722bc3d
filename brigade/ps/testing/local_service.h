#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/ps/forwarding_service.h"
#include "brigade/ps/server/server_core.h"

/// Parameter servers in the test's process, with the faults of a network and of a machine.
namespace brigade::ps::testing {

using ServiceCall = ServiceMethod;
/// `begin_exchange`, and each gradient that is added then.
inline constexpr ServiceCall kSendEarly{100};

struct LocalServerOptions {
  ServerCoreOptions core;
  std::string name = "local";  ///< `ParameterService::name` of its connections
  /// Outlives restarts.
  std::shared_ptr<io::FileSystem> files = std::make_shared<io::MemoryFileSystem>();
  /// Decides about leases; must outlive the server. Null: the machine's clock.
  const base::Clock* clock = nullptr;
};

/// A `ServerCore` to which tests connect as if over a network: requests and replies can be lost,
/// and the server can go down and be started again with what it has on its files. Leases end only
/// in `core().tick()`, which the test calls.
///
/// Thread-safety: all functions from any thread, except that one thread at a time stops, starts and
/// uses `core`.
class LocalServer {
 public:
  using Hook = std::function<void(ServiceCall)>;

  explicit LocalServer(LocalServerOptions options) : options_(std::move(options)) { start(); }
  ~LocalServer() { stop(); }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  /// A connection. The server must outlive it, but may be down meanwhile: then calls throw
  /// kUnavailable.
  std::unique_ptr<ParameterService> connect();

  /// Whether its connections send pushes early (`ParameterService::begin_exchange`); at first not.
  void take_early(bool does) { takes_early_ = does; }
  /// Whether its connections copy pushes (`ParameterService::copies_pushes`); at first not.
  void copy_pushes(bool does) { copies_pushes_ = does; }
  /// The exchanges that were begun so, and those that were finished.
  int begun() const { return begun_; }
  int finished() const { return finished_; }

  /// The server that runs; a new one after `start`.
  ServerCore& core() {
    check_state(core_ != nullptr, "the server is down");
    return *core_;
  }

  /// The next `count` calls of this kind do not reach the server: their callers get kUnavailable.
  void lose_requests(ServiceCall call, int count = 1) {
    const concurrency::MutexLock lock(mutex_);
    lost_requests_[call] = count;
  }
  /// The next `count` calls of this kind are done, but their callers get kUnavailable.
  void lose_replies(ServiceCall call, int count = 1) {
    const concurrency::MutexLock lock(mutex_);
    lost_replies_[call] = count;
  }
  /// Calls `hook` before every call, in the caller's thread. It may block (a slow network) and
  /// throw (a fault of another kind). Empty: nothing.
  void before_calls(Hook hook) {
    const concurrency::MutexLock lock(mutex_);
    hook_ = std::move(hook);
  }
  /// The same when a call has succeeded, before its caller gets the reply.
  void after_calls(Hook hook) {
    const concurrency::MutexLock lock(mutex_);
    after_hook_ = std::move(hook);
  }

  /// Ends the server as a crash does, without a snapshot: calls that are blocked throw
  /// kUnavailable, and so do later ones. Returns when none runs any longer.
  void stop() {
    const concurrency::MutexLock lock(mutex_);
    is_up_ = false;
    if (core_ == nullptr) return;
    core_->close();
    while (running_ > 0) changed_.wait(mutex_);
    core_.reset();
  }
  /// Opens the server on its files: it knows no tokens.
  void start() {
    const concurrency::MutexLock lock(mutex_);
    if (core_ != nullptr) return;
    const base::Clock& clock = options_.clock == nullptr ? machine_clock_ : *options_.clock;
    core_ = std::make_unique<ServerCore>(options_.files, options_.core, clock);
    is_up_ = true;
  }
  void restart() {
    stop();
    start();
  }
  /// The same on other files: those that a crash of the machine has left.
  void restart_on(std::shared_ptr<io::FileSystem> files) {
    stop();
    options_.files = std::move(files);
    start();
  }

 private:
  friend class LocalService;
  friend class LocalExchange;
  using Counts = std::map<ServiceCall, int>;

  static bool take(Counts& counts, ServiceCall call) {
    const auto found = counts.find(call);
    if (found == counts.end() || found->second == 0) return false;
    --found->second;
    return true;
  }
  [[noreturn]] static void fail(const std::string& reason) {
    throw Error(ErrorCode::kUnavailable, "In this test, ", reason, ".");
  }

  void call_hook(ServiceCall call) BRIGADE_EXCLUDES(mutex_) {
    Hook hook;
    {
      const concurrency::MutexLock lock(mutex_);
      hook = hook_;
    }
    if (hook) hook(call);
  }

  /// Keeps the server from being destroyed while a call runs.
  class Running {
   public:
    Running(LocalServer& server, ServiceCall call) : server_(server), call_(call) {
      server_.call_hook(call);
      const concurrency::MutexLock lock(server_.mutex_);
      if (!server_.is_up_) fail("the server is down");
      if (take(server_.lost_requests_, call)) fail("the request was lost");
      ++server_.running_;
    }
    ~Running() {
      const concurrency::MutexLock lock(server_.mutex_);
      --server_.running_;
      server_.changed_.notify_all();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    ServerCore& core() const { return *server_.core_; }
    /// Throws if the reply is to be lost.
    void check_reply() const {
      Hook hook;
      {
        const concurrency::MutexLock lock(server_.mutex_);
        hook = server_.after_hook_;
      }
      if (hook) hook(call_);
      const concurrency::MutexLock lock(server_.mutex_);
      if (take(server_.lost_replies_, call_)) fail("the reply was lost");
    }

   private:
    LocalServer& server_;
    const ServiceCall call_;
  };

  LocalServerOptions options_;
  const base::SystemClock machine_clock_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  // Changed only while no call runs, so calls use it without the mutex.
  std::unique_ptr<ServerCore> core_;
  bool is_up_ BRIGADE_GUARDED_BY(mutex_) = false;
  int running_ BRIGADE_GUARDED_BY(mutex_) = 0;  // calls
  std::atomic<bool> takes_early_{false};
  std::atomic<bool> copies_pushes_{false};
  std::atomic<int> begun_{0}, finished_{0};
  Hook hook_ BRIGADE_GUARDED_BY(mutex_);
  Hook after_hook_ BRIGADE_GUARDED_BY(mutex_);
  Counts lost_requests_ BRIGADE_GUARDED_BY(mutex_);
  Counts lost_replies_ BRIGADE_GUARDED_BY(mutex_);
};

/// Keeps copies of its gradients until it is finished.
class LocalExchange final : public OpenExchange {
 public:
  LocalExchange(LocalServer& server, ParameterService& service, std::string token,
                ExchangeRequest request, ParameterService::Time deadline)
      : server_(server),
        service_(service),
        token_(std::move(token)),
        request_(std::move(request)),
        deadline_(deadline) {
    ++server_.begun_;
  }
  void add(const at::Tensor& gradient) override {
    server_.call_hook(kSendEarly);
    auto& announced = request_.push->gradients.at(added_++).tensor;
    check_argument(gradient.is_contiguous() && gradient.sizes() == announced.sizes() &&
                       gradient.scalar_type() == announced.scalar_type(),
                   "a gradient is another one than was announced");
    announced = gradient.clone();
  }
  ExchangeReply finish() override {
    check_state(added_ == request_.push->gradients.size(), "a push lacks gradients");
    ++server_.finished_;
    return service_.exchange(token_, request_, deadline_);
  }

 private:
  LocalServer& server_;
  ParameterService& service_;
  const std::string token_;
  ExchangeRequest request_;
  const ParameterService::Time deadline_;
  std::size_t added_ = 0;
};

/// A connection to a `LocalServer`.
class LocalService final : public ForwardingService<ParameterService> {
 public:
  explicit LocalService(LocalServer& server) : server_(server) {}

  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override {
    if (!server_.copies_pushes_ || !request.push)
      return ForwardingService::exchange(token, request, deadline);
    ExchangeRequest copied = request;
    for (checkpoint::NamedTensor& each : copied.push->gradients) each.tensor = each.tensor.clone();
    ExchangeReply reply = ForwardingService::exchange(token, copied, deadline);
    reply.sent = copied.push;
    return reply;
  }
  bool copies_pushes() const override { return server_.copies_pushes_; }
  std::unique_ptr<OpenExchange> begin_exchange(const std::string& token,
                                               const ExchangeRequest& request,
                                               Time deadline) override {
    if (!server_.takes_early_) return nullptr;
    server_.call_hook(kSendEarly);
    return std::make_unique<LocalExchange>(server_, *this, token, request, deadline);
  }
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override {
    // In short waits, so that `close` ends it.
    constexpr std::chrono::milliseconds kWait{20};
    BeginStepRequest part = request;
    for (auto left = request.wait;; left -= part.wait) {
      part.wait = std::min(left, kWait);
      BeginStepReply reply = ForwardingService::begin_step(token, part, deadline);
      if (reply.may_begin || left <= kWait) return reply;
    }
  }

  std::string name() const override { return server_.options_.name; }
  void close() override { is_closed_ = true; }

 private:
  void forward(ServiceMethod method, Time, const Call& call) override {
    if (is_closed_) LocalServer::fail("the connection is closed");
    const LocalServer::Running running(server_, method);
    call(running.core());
    running.check_reply();
  }

  LocalServer& server_;
  std::atomic<bool> is_closed_{false};
};

inline std::unique_ptr<ParameterService> LocalServer::connect() {
  return std::make_unique<LocalService>(*this);
}

struct LocalServersOptions {
  int servers = 1;
  /// The tasks that train; the first is the chief.
  std::vector<cluster::Task> tasks = {{.job = "worker", .index = 0}};
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  /// Server i keeps its files in "ps-<i>" of `folder`.
  std::shared_ptr<io::FileSystem> files = std::make_shared<io::MemoryFileSystem>();
  io::Path folder = "/servers";
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
  const base::Clock* clock = nullptr;  ///< as `LocalServerOptions::clock`
};

/// All parameter servers of a job.
class LocalServers {
 public:
  explicit LocalServers(const LocalServersOptions& options) {
    for (int i = 0; i < options.servers; ++i) {
      servers_.push_back(std::make_unique<LocalServer>(
          LocalServerOptions{.core = {.tasks = options.tasks,
                                      .is_coordinator = i == 0,
                                      .lease = options.lease,
                                      .store = {.folder = options.folder / base::str_cat("ps-", i)},
                                      .snapshot_after_bytes = options.snapshot_after_bytes},
                             .files = options.files,
                             .clock = options.clock}));
    }
  }

  int size() const { return static_cast<int>(servers_.size()); }
  LocalServer& operator[](int server) { return *servers_.at(static_cast<std::size_t>(server)); }
  /// A connection to each, for one task.
  std::vector<std::unique_ptr<ParameterService>> connect() {
    std::vector<std::unique_ptr<ParameterService>> services;
    for (const auto& each : servers_) services.push_back(each->connect());
    return services;
  }
  /// Ends the leases that have run out.
  void tick() {
    for (const auto& each : servers_) each->core().tick();
  }

 private:
  std::vector<std::unique_ptr<LocalServer>> servers_;
};

}  // namespace brigade::ps::testing
