#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/proto/rendezvous.grpc.pb.h"
#include "brigade/rpc/proto_conversion.h"
#include "brigade/rpc/remote.h"
#include "brigade/rpc/rendezvous_state.h"
#include "brigade/rpc/service_host.h"

namespace brigade::rpc {
namespace {

// The least time between two warnings about refused calls.
constexpr std::chrono::seconds kRefusalsPause{30};

/// The server side of a Join call. gRPC calls the On... functions; the object lives until the last
/// of them (OnDone). Operations are started without a lock: gRPC may call back before they return.
class JoinStream final : public grpc::ServerBidiReactor<proto::FromMember, proto::ToMember>,
                         public Listener {
 public:
  explicit JoinStream(RendezvousState& state) : state_(state) {}

  static std::shared_ptr<JoinStream> open(RendezvousState& state) {
    auto stream = std::make_shared<JoinStream>(state);
    stream->self_ = stream;
    return stream;
  }
  void start() { StartRead(&incoming_); }

  /// Whether Hello has arrived, or the call has ended.
  bool is_introduced() const { return is_introduced_; }
  /// Ends the call if Hello has not arrived for `patience`.
  void end_unless_introduced(TimePoint now, std::chrono::milliseconds patience) {
    if (is_introduced_ || now - opened_ < patience) return;
    on_end({.error = Error(ErrorCode::kDeadlineExceeded, "A member sends Hello immediately.")});
  }

  void on_event(const RendezvousEvent& event) override { send(to_proto(event), Last::kNo); }
  void on_end(const MembershipEnd& ending) override { send(to_proto(ending), Last::kYes); }

 private:
  enum class Last { kNo, kYes };

  void send(proto::ToMember message, Last last) {
    {
      const concurrency::MutexLock lock(mutex_);
      if (is_ending_) return;
      is_ending_ = last == Last::kYes;
      outgoing_.push_back(std::move(message));
      if (std::exchange(is_writing_, true)) return;
    }
    write_next();
  }

  void write_next() {
    const proto::ToMember* next = nullptr;
    {
      const concurrency::MutexLock lock(mutex_);
      next = &outgoing_.front();  // its address is stable while others are appended
    }
    StartWrite(next);
  }

  void OnWriteDone(bool ok) override {
    enum class Then { kNothing, kWrite, kFinish } then = Then::kNothing;
    {
      const concurrency::MutexLock lock(mutex_);
      outgoing_.pop_front();
      if (!ok) outgoing_.clear();
      if (!outgoing_.empty()) {
        then = Then::kWrite;
      } else {
        is_writing_ = false;
        if (is_ending_ && !std::exchange(is_finished_, true)) then = Then::kFinish;
      }
    }
    if (then == Then::kWrite) write_next();
    if (then == Then::kFinish) Finish(grpc::Status::OK);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      is_introduced_ = true;
      if (id_) state_.disconnect(*id_);
      finish_without_words();
      return;
    }
    handle();
    {
      const concurrency::MutexLock lock(mutex_);
      if (is_finished_) return;
    }
    StartRead(&incoming_);
  }

  void handle() {
    is_introduced_ = true;
    if (incoming_.has_hello() && !id_) {
      id_ = state_.join(from_proto(incoming_.hello()), self_);
    } else if (incoming_.has_heartbeat() && id_) {
      state_.heartbeat(*id_);
    } else if (incoming_.has_leave() && id_) {
      state_.leave(*id_);
    } else {
      if (id_) state_.disconnect(*id_);
      on_end({.error = Error(ErrorCode::kInvalidArgument,
                             "A member sends Hello once, before everything else.")});
    }
  }

  void finish_without_words() {
    {
      const concurrency::MutexLock lock(mutex_);
      is_ending_ = true;
      if (is_writing_) return;  // OnWriteDone finishes
      if (std::exchange(is_finished_, true)) return;
    }
    Finish(grpc::Status::OK);
  }

  void OnDone() override { const auto last_reference = std::move(self_); }

  RendezvousState& state_;
  const TimePoint opened_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_introduced_{false};
  std::shared_ptr<JoinStream> self_;
  // Touched only between reads, which are one at a time.
  proto::FromMember incoming_;
  std::optional<MemberId> id_;

  concurrency::Mutex mutex_;
  std::deque<proto::ToMember> outgoing_ BRIGADE_GUARDED_BY(mutex_);  // the first is being written
  bool is_writing_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;    // nothing more is accepted
  bool is_finished_ BRIGADE_GUARDED_BY(mutex_) = false;  // Finish was called
};

class Service final : public proto::Rendezvous::CallbackService {
 public:
  explicit Service(RendezvousState& state) : state_(state) {}

  grpc::ServerBidiReactor<proto::FromMember, proto::ToMember>* Join(
      grpc::CallbackServerContext*) override {
    const auto stream = JoinStream::open(state_);
    {
      const concurrency::MutexLock lock(mutex_);
      silent_.push_back(stream);
    }
    stream->start();
    return stream.get();
  }

  /// Ends the calls in which Hello does not arrive.
  void end_silent(TimePoint now, std::chrono::milliseconds patience) {
    std::vector<std::shared_ptr<JoinStream>> silent;
    {
      const concurrency::MutexLock lock(mutex_);
      std::erase_if(silent_, [&](const std::weak_ptr<JoinStream>& each) {
        const auto stream = each.lock();
        if (stream && !stream->is_introduced()) silent.push_back(stream);
        return !stream || stream->is_introduced();
      });
    }
    for (const auto& stream : silent) stream->end_unless_introduced(now, patience);
  }

  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext* context,
                                const proto::SetRequest* request, proto::SetReply*) override {
    return answer_now(context, [&] {
      state_.set(from_proto(request->caller()), request->key(), request->value());
    });
  }

  grpc::ServerUnaryReactor* Add(grpc::CallbackServerContext* context,
                                const proto::AddRequest* request, proto::AddReply* reply) override {
    return answer_now(context, [&] {
      reply->set_sum(state_.add(from_proto(request->caller()), request->key(), request->delta()));
    });
  }

  grpc::ServerUnaryReactor* Append(grpc::CallbackServerContext* context,
                                   const proto::AppendRequest* request,
                                   proto::AppendReply* reply) override {
    return answer_now(context, [&] {
      reply->set_number(
          state_.append(from_proto(request->caller()), request->key(), request->value()));
    });
  }

  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const proto::GetRequest* request, proto::GetReply* reply) override {
    auto* reactor = context->DefaultReactor();
    state_.get(from_proto(request->caller()), request->key(),
               std::chrono::milliseconds(request->timeout_ms()),
               [reactor, reply](const CallResult& result) {
                 reply->set_value(result.value);
                 reactor->Finish(status_of(result));
               });
    return reactor;
  }

  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context,
                                    const proto::BarrierRequest* request,
                                    proto::BarrierReply*) override {
    auto* reactor = context->DefaultReactor();
    state_.barrier(from_proto(request->caller()), request->name(),
                   std::chrono::milliseconds(request->timeout_ms()),
                   [reactor](const CallResult& result) { reactor->Finish(status_of(result)); });
    return reactor;
  }

 private:
  static grpc::Status status_of(const CallResult& result) {
    return result.error ? to_status(*result.error) : grpc::Status::OK;
  }

  template <class Call>
  static grpc::ServerUnaryReactor* answer_now(grpc::CallbackServerContext* context,
                                              const Call& call) {
    auto* reactor = context->DefaultReactor();
    try {
      call();
      reactor->Finish(grpc::Status::OK);
    } catch (const Error& error) {
      reactor->Finish(to_status(error));
    }
    return reactor;
  }

  RendezvousState& state_;
  concurrency::Mutex mutex_;
  std::vector<std::weak_ptr<JoinStream>> silent_ BRIGADE_GUARDED_BY(mutex_);
};

class Server final : public RendezvousServer {
 public:
  Server(const RendezvousServerOptions& options, const cluster::Member& host)
      : hello_timeout_(options.hello_timeout),
        state_({.world_size = options.world_size,
                .generation = options.generation,
                .peer_timeout = options.peer_timeout,
                .host = host,
                .on_lost = options.on_lost,
                .on_left = options.on_left,
                .on_all_joined = options.on_all_joined,
                .on_earlier_deadline = [this] { wake(); }},
               clock_),
        service_(state_),
        // Members keep a Join call open, so a connection without a call is not a member's.
        host_(service_,
              {.address = cluster::parse_address(options.address, cluster::PortZero::kAllowed),
               .key = options.key,
               .clients = static_cast<std::size_t>(options.world_size),
               .max_message_bytes = kLargestMessage,
               .idle_timeout = hello_timeout_,
               .handshake_timeout = hello_timeout_}) {
    watcher_ = std::jthread([this] { watch(); });
  }

  ~Server() override {
    {
      const concurrency::MutexLock lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    watcher_.join();
    host_.refuse_connections();
    state_.close();
    host_.shut_down();
  }

  std::string address() const override { return cluster::to_string(host_.address()); }

  void begin_generation(int generation, int world_size) override {
    state_.begin_generation(generation, world_size);
  }

  std::int64_t num_refused_calls() override { return state_.num_refused_calls(); }

 private:
  void report_refused_calls() {
    const std::int64_t count = state_.num_refused_calls();
    const TimePoint now = clock_.now();
    if (count == reported_refusals_ || (reported_at_ && now - *reported_at_ < kRefusalsPause))
      return;
    reported_refusals_ = count;
    reported_at_ = now;
    base::log_warning("So far ", count, " calls to the rendezvous at ", address(),
                      " came from a program that is no member of this job. They were refused and "
                      "changed nothing.");
  }

  void wake() {
    const concurrency::MutexLock lock(mutex_);
    is_awake_ = true;
    changed_.notify_all();
  }

  void watch() {
    for (;;) {
      const TimePoint next = state_.tick();
      service_.end_silent(clock_.now(), hello_timeout_);
      report_refused_calls();
      const concurrency::MutexLock lock(mutex_);
      while (!is_ending_ && !is_awake_ && clock_.now() < next) changed_.wait_until(mutex_, next);
      if (is_ending_) return;
      is_awake_ = false;
    }
  }

  const std::chrono::milliseconds hello_timeout_;
  base::SystemClock clock_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool is_awake_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  RendezvousState state_;
  Service service_;
  ServiceHost host_;
  std::int64_t reported_refusals_ = 0;  // used only by the watcher, as is the next
  std::optional<TimePoint> reported_at_;
  std::jthread watcher_;  // calls state_.tick() when it is due
};

}  // namespace

bool is_built_in() {
  return true;
}

std::unique_ptr<RendezvousServer> make_remote_server(const RendezvousServerOptions& options,
                                                     const cluster::Member& host) {
  return std::make_unique<Server>(options, host);
}

}  // namespace brigade::rpc
