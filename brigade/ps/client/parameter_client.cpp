#include "brigade/ps/client/parameter_client.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/ps/client/early_push.h"
#include "brigade/ps/client/gradient_push.h"
#include "brigade/ps/client/job_membership.h"
#include "brigade/ps/client/placed_variables.h"
#include "brigade/ps/client/server_statuses.h"
#include "brigade/ps/client/states_of_step.h"
#include "brigade/ps/client/value_exchange.h"
#include "brigade/ps/client/worker_steps.h"
#include "brigade/ps/client/worker_variables.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;
using Time = ParameterService::Time;
using std::chrono::milliseconds;

// A worker whose message does not arrive loses its lease; a chief's keeps the servers waiting, and
// a push that is not acknowledged may be lost.
constexpr milliseconds kLeaveTime{1000};
constexpr milliseconds kNeededLeaveTime{15'000};
constexpr milliseconds kFirstReadyPoll{5};
constexpr milliseconds kLongestReadyPoll{500};
// How long one call of begin_step waits: short, so that a restart of the server costs little.
constexpr milliseconds kBeginStepWait{1000};
constexpr std::chrono::seconds kLogLongWaits{10};

std::uint64_t bytes_of(const std::vector<NamedState>& variables) {
  std::uint64_t bytes = 0;
  for (const NamedState& each : variables) {
    bytes += each.state.value.nbytes();
    for (const at::Tensor& slot : each.state.slots) bytes += slot.nbytes();
  }
  return bytes;
}

void check_services(const std::vector<std::unique_ptr<ParameterService>>& services) {
  check_argument(!services.empty(), "A job needs at least 1 parameter server, and has none.");
  for (const auto& service : services)
    check_argument(service != nullptr, "A connection to a parameter server is null.");
}

void check_push_dtype(const ParameterClientOptions& options) {
  if (!options.push_dtype) return;
  check_argument(*options.push_dtype == at::kBFloat16, "Gradients cannot be pushed as ",
                 c10::toString(*options.push_dtype), ": push_dtype is bfloat16, or unset.");
}

void check_timeouts(const ParameterClientOptions& options) {
  for (const milliseconds time : {options.server_timeout, options.attempt_timeout})
    check_argument(time.count() > 0, "A parameter client's timeout is ", time.count(),
                   " ms; it must be positive.");
}

}  // namespace

class ParameterClient::Impl {
 public:
  Impl(const cluster::Task& task, std::vector<std::unique_ptr<ParameterService>> services,
       const ParameterClientOptions& options)
      : options_(options),
        membership_(task, std::move(services),
                    {.server_timeout = options.server_timeout,
                     .attempt_timeout = options.attempt_timeout,
                     .cancel = options.cancel}) {}
  void leave();

  int num_servers() const { return membership_.num_servers(); }
  std::int64_t incarnation() const { return membership_.incarnation(); }
  std::int64_t step() const { return step_; }
  bool has_failed() const { return has_failed_; }

  /// Makes a call of the client: notes its failure, and that this task was replaced.
  template <class Call>
  auto guarded(const Call& call) {
    const CallClock::Call in_call(options_.calls.get());
    membership_.throw_if_replaced();
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<const Call&>>) {
        call();
        has_failed_ = false;  // the program is over it
      } else {
        auto result = call();
        has_failed_ = false;
        return result;
      }
    } catch (const ReplacedError&) {
      has_failed_ = true;
      membership_.record_replacement(std::current_exception());
      throw;
    } catch (...) {
      has_failed_ = true;
      membership_.throw_if_replaced();  // the other errors are consequences
      throw;
    }
  }

  bool is_in_progress() { return statuses().is_any_ready(); }
  bool create(std::span<const Creation> variables, std::span<const PlacedVariable> placement,
              const optim::UpdateRule& rule, const JobConfig& job);
  void wait_ready(std::span<const PlacedVariable> placement, const JobConfig& job);
  void set_ready();
  void assign(std::span<const NamedState> variables, std::int64_t step);
  void set_learning_rate(double rate);
  double learning_rate();
  States states();
  Values pull();
  void pull_by_rows(std::size_t variable) { variables_.pull_by_rows(variable); }
  std::vector<at::Tensor> pull_rows(std::span<const at::Tensor> indices);
  Values push(std::span<const at::Tensor> gradients);
  void begin_early(std::vector<std::size_t> variables);
  void send_early(const at::Tensor& gradient);
  void drop_early() noexcept;
  void begin_step();

 private:
  using Pulled = ValueExchange::Pulled;
  ServerSession& session(int server) const { return membership_.session(server); }
  template <class Work>
  void for_each_server(const Work& work) {
    membership_.for_each_server(work);
  }

  // Before training.
  ServerStatuses statuses();
  void use(WorkerVariables variables, const JobConfig& job);
  void check_configured() const;

  // Training.
  Values take(Values values);
  Pulled pulled_with_push() const;
  std::vector<Push> pushes_of(std::span<const at::Tensor> gradients);
  std::vector<Push> with_step(std::vector<Push> pushes) const;

  const ParameterClientOptions options_;
  JobMembership membership_;
  bool has_failed_ = false;  // the latest call
  bool is_chief_ = false;    // it has created the variables

  WorkerVariables variables_;
  std::optional<JobConfig> job_;           // unset before `create` and `wait_ready`
  std::optional<WorkerSteps> steps_;       // as job_
  std::optional<ValueExchange> exchange_;  // as job_
  std::optional<EarlyPush> early_;         // the next push, of which a part was sent
  std::int64_t step_ = 0;
};

void ParameterClient::Impl::leave() {
  bool is_needed = is_chief_;
  for (int server = 0; server < num_servers(); ++server)
    is_needed = is_needed || session(server).has_unacknowledged();
  membership_.leave(Clock::now() + (is_needed ? kNeededLeaveTime : kLeaveTime));
}

ServerStatuses ParameterClient::Impl::statuses() {
  std::vector<ServerStatus> statuses(static_cast<std::size_t>(num_servers()));
  for_each_server([&](int server) {
    statuses[static_cast<std::size_t>(server)] =
        session(server).call([](ParameterService& service, const std::string& token,
                                Time deadline) { return service.renew(token, deadline); });
  });
  step_ = statuses.front().step;
  return {std::move(statuses), membership_.server_names()};
}

void ParameterClient::Impl::use(WorkerVariables variables, const JobConfig& job) {
  variables_ = std::move(variables);
  job_ = job;
  steps_.emplace(job.mode);
  exchange_.emplace(membership_, variables_, *steps_);
}

void ParameterClient::Impl::check_configured() const {
  check_state(
      job_.has_value(),
      "The parameter servers' variables are not known yet: call create, or wait_ready, first.");
}

bool ParameterClient::Impl::create(std::span<const Creation> variables,
                                   std::span<const PlacedVariable> placement,
                                   const optim::UpdateRule& rule, const JobConfig& job) {
  PlacedVariables placed(placement, num_servers());
  std::vector<std::vector<Creation>> parts = placed.divide(variables);
  const ServerStatuses before = statuses();
  before.check_whole();
  for_each_server([&](int server) {
    const CreateRequest request{.variables = std::move(parts[static_cast<std::size_t>(server)]),
                                .rule = rule.config(),
                                .job = job};
    std::uint64_t bytes = 0;
    for (const Creation& each : request.variables) bytes += each.value.nbytes();
    session(server).call([&](ParameterService& service, const std::string& token,
                             Time deadline) { return service.create(token, request, deadline); },
                         bytes);
    session(server).expect_variables();
  });
  use({std::move(placed), variables}, job);
  is_chief_ = true;
  if (before.is_any_ready()) set_ready();  // an earlier chief may have reached only some servers
  return before.is_any_ready();
}

void ParameterClient::Impl::wait_ready(std::span<const PlacedVariable> placement,
                                       const JobConfig& job) {
  PlacedVariables placed(placement, num_servers());
  milliseconds pause = kFirstReadyPoll;
  while (true) {
    ServerStatuses now = statuses();
    // One may have answered before the chief created variables, and another after it let workers
    // in.
    if (now.is_partly_ready()) now = statuses();
    now.check_whole();
    now.check_job(job);
    const std::string waits_for = now.not_ready();
    if (waits_for.empty()) break;
    if (pause == kFirstReadyPoll)
      base::log_info("Waiting until the chief has initialized the ", waits_for, ".");
    concurrency::interruptible_wait(pause, membership_.stop());
    membership_.stop().throw_if_cancelled("waiting until the chief has initialized the variables");
    pause = std::min(2 * pause, kLongestReadyPoll);
  }
  for (int server = 0; server < num_servers(); ++server) session(server).expect_variables();
  use(WorkerVariables(std::move(placed)), job);
}

void ParameterClient::Impl::set_ready() {
  check_configured();
  for_each_server([&](int server) {
    session(server).call([](ParameterService& service, const std::string& token, Time deadline) {
      service.set_ready(token, deadline);
    });
  });
}

void ParameterClient::Impl::assign(std::span<const NamedState> variables, std::int64_t step) {
  check_configured();
  const std::vector<std::vector<NamedState>> parts = variables_.placed().divide(variables);
  for_each_server([&](int server) {
    const std::vector<NamedState>& part = parts[static_cast<std::size_t>(server)];
    session(server).call([&](ParameterService& service, const std::string& token,
                             Time deadline) { service.assign(token, part, step, deadline); },
                         bytes_of(part));
  });
  step_ = step;
}

void ParameterClient::Impl::set_learning_rate(double rate) {
  check_configured();
  for_each_server([&](int server) {
    session(server).call([&](ParameterService& service, const std::string& token, Time deadline) {
      service.set_learning_rate(token, rate, deadline);
    });
  });
}

double ParameterClient::Impl::learning_rate() {
  check_configured();
  return session(0)
      .call([](ParameterService& service, const std::string& token, Time deadline) {
        return service.renew(token, deadline);
      })
      .learning_rate;
}

ParameterClient::States ParameterClient::Impl::states() {
  check_configured();
  const auto read = [this] { return exchange_->read_states(); };
  States states =
      exchange_->take(job_->mode == UpdateMode::kSync
                          ? states_of_one_step(read, options_.server_timeout, membership_.stop())
                          : read());
  step_ = states.step;
  return states;
}

ParameterClient::Values ParameterClient::Impl::take(Values values) {
  step_ = values.step;
  return values;
}

ParameterClient::Values ParameterClient::Impl::pull() {
  check_configured();
  std::vector<std::optional<Push>> none(static_cast<std::size_t>(num_servers()));
  Values values = take(exchange_->exchange(std::move(none), Pulled::kAllValues));
  variables_.learn_forms(values.values);
  return values;
}

std::vector<at::Tensor> ParameterClient::Impl::pull_rows(std::span<const at::Tensor> indices) {
  check_configured();
  return exchange_->pull_rows(indices);
}

ParameterClient::Values ParameterClient::Impl::push(std::span<const at::Tensor> gradients) {
  check_configured();
  check_state(steps_->may_push(),
              "A worker pushes the gradients of a step that it has begun: call begin_step first.");
  if (!variables_.has_forms()) pull();
  check_pushable(variables_, gradients);
  std::vector<Push> pushes = with_step(pushes_of(gradients));
  early_.reset();
  Values values = take(exchange_->exchange(
      {std::make_move_iterator(pushes.begin()), std::make_move_iterator(pushes.end())},
      pulled_with_push()));
  steps_->finish();
  return values;
}

void ParameterClient::Impl::begin_early(std::vector<std::size_t> variables) {
  const CallClock::Call in_call(options_.calls.get());
  drop_early();
  if (!job_ || !steps_->may_push() || !variables_.has_forms() || variables.empty()) return;
  for (const std::size_t i : variables)
    check_argument(i < variables_.size() && variables_[i].is_trainable, "Variable ", i, " of ",
                   variables_.size(), " is to be pushed, and is not trainable.");
  early_.emplace(std::move(variables));
  exchange_->begin_early(
      with_step(announce_gradients(variables_, *early_, num_servers(), options_.push_dtype)),
      pulled_with_push());
}

void ParameterClient::Impl::send_early(const at::Tensor& gradient) {
  const CallClock::Call in_call(options_.calls.get());
  if (!early_ || early_->is_done()) return;
  const std::size_t i = early_->next();
  if (gradient.layout() != at::kStrided || form_of(gradient) != variables_.form(i))
    return drop_early();  // `push` says what is wrong
  at::Tensor sent = to_push(gradient, options_.push_dtype);
  session(variables_[i].server).send_early(sent);
  early_->add(gradient, std::move(sent));
}

void ParameterClient::Impl::drop_early() noexcept {
  early_.reset();
  for (int server = 0; server < num_servers(); ++server) session(server).drop_early();
}

/// No values come with a synchronous push: they change with the step's decision.
ValueExchange::Pulled ParameterClient::Impl::pulled_with_push() const {
  return job_->mode == UpdateMode::kSync ? Pulled::kNothing : Pulled::kAllValues;
}

/// [server]: every server gets a push.
std::vector<Push> ParameterClient::Impl::pushes_of(std::span<const at::Tensor> gradients) {
  if (early_ && early_->begins(gradients))
    return divide_gradients(variables_, gradients, num_servers(), options_.push_dtype, *early_);
  drop_early();
  return divide_gradients(variables_, gradients, num_servers(), options_.push_dtype);
}

/// [server]: for the step that this worker may push.
std::vector<Push> ParameterClient::Impl::with_step(std::vector<Push> pushes) const {
  for (int server = 0; server < num_servers(); ++server) {
    Push& push = pushes[static_cast<std::size_t>(server)];
    push.token = steps_->token();
    // No synchronous gradient is stale: it counts for its token or not at all.
    if (job_->mode == UpdateMode::kSync) continue;
    push.read_at = exchange_->read_at(server);
    push.acknowledge_later = !options_.wait_for_disk;
  }
  return pushes;
}

void ParameterClient::Impl::begin_step() {
  check_configured();
  const Time begin = Clock::now();
  bool is_logged = false;
  while (!steps_->may_push()) {
    const BeginStepReply reply =
        session(0).call([this](ParameterService& service, const std::string& token, Time deadline) {
          return steps_->ask(service, token, kBeginStepWait, deadline);
        });
    if (steps_->take(reply)) return;
    membership_.stop().throw_if_cancelled("waiting for the next step");
    if (!is_logged && Clock::now() - begin > kLogLongWaits) {
      is_logged = true;
      base::log_info("Waiting for the next step",
                     reply.waiting_for.empty() ? std::string()
                                               : ", for " + base::listed(reply.waiting_for, ", "),
                     ".");
    }
  }
}

ParameterClient::ParameterClient(cluster::Task task,
                                 std::vector<std::unique_ptr<ParameterService>> servers,
                                 ParameterClientOptions options)
    : exceptions_(std::uncaught_exceptions()) {
  check_timeouts(options);
  check_push_dtype(options);
  check_services(servers);
  impl_ = std::make_unique<Impl>(task, std::move(servers), options);
}

ParameterClient::~ParameterClient() {
  if (impl_->has_failed() || std::uncaught_exceptions() > exceptions_) return;
  try {
    impl_->leave();
  } catch (const std::exception&) {
    // No memory to notify the servers: the leases run out.
  }
}

int ParameterClient::num_servers() const {
  return impl_->num_servers();
}

std::int64_t ParameterClient::incarnation() const {
  return impl_->incarnation();
}

bool ParameterClient::is_in_progress() {
  return impl_->guarded([&] { return impl_->is_in_progress(); });
}

bool ParameterClient::create(std::span<const Creation> variables,
                             std::span<const PlacedVariable> placement,
                             const optim::UpdateRule& rule, const JobConfig& job) {
  return impl_->guarded([&] { return impl_->create(variables, placement, rule, job); });
}

void ParameterClient::wait_ready(std::span<const PlacedVariable> placement, const JobConfig& job) {
  impl_->guarded([&] { impl_->wait_ready(placement, job); });
}

void ParameterClient::set_ready() {
  impl_->guarded([&] { impl_->set_ready(); });
}

void ParameterClient::assign(std::span<const NamedState> variables, std::int64_t step) {
  impl_->guarded([&] { impl_->assign(variables, step); });
}

void ParameterClient::set_learning_rate(double rate) {
  impl_->guarded([&] { impl_->set_learning_rate(rate); });
}

double ParameterClient::learning_rate() {
  return impl_->guarded([&] { return impl_->learning_rate(); });
}

ParameterClient::States ParameterClient::states() {
  return impl_->guarded([&] { return impl_->states(); });
}

ParameterClient::Values ParameterClient::pull() {
  return impl_->guarded([&] { return impl_->pull(); });
}

void ParameterClient::pull_by_rows(std::size_t variable) {
  impl_->pull_by_rows(variable);
}

std::vector<at::Tensor> ParameterClient::pull_rows(std::span<const at::Tensor> indices) {
  return impl_->guarded([&] { return impl_->pull_rows(indices); });
}

ParameterClient::Values ParameterClient::push(std::span<const at::Tensor> gradients) {
  return impl_->guarded([&] { return impl_->push(gradients); });
}

void ParameterClient::begin_early(std::vector<std::size_t> variables) {
  impl_->begin_early(std::move(variables));
}

void ParameterClient::send_early(const at::Tensor& gradient) {
  impl_->send_early(gradient);
}

void ParameterClient::drop_early() noexcept {
  impl_->drop_early();
}

void ParameterClient::begin_step() {
  impl_->guarded([&] { impl_->begin_step(); });
}

std::int64_t ParameterClient::step() const {
  return impl_->step();
}

}  // namespace brigade::ps
