#include "brigade/ps/client/parameter_client.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/lease_renewal.h"
#include "brigade/ps/client/placed_variables.h"
#include "brigade/ps/client/read_moments.h"
#include "brigade/ps/client/server_session.h"
#include "brigade/ps/client/states_of_step.h"
#include "brigade/ps/client/worker_steps.h"
#include "brigade/ps/server/server_threads.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;
using Time = ParameterService::Time;
using std::chrono::milliseconds;

// Long transfers hold up a renewal that shares their connection.
constexpr milliseconds kRenewalTime{2000};
// A worker that is not heard loses its lease; a chief that is not heard keeps the servers waiting.
constexpr milliseconds kLeaveTime{1000};
constexpr milliseconds kChiefLeaveTime{15'000};
// Slots of a variable with most rules, for the time that a call may take.
constexpr std::uint64_t kCommonSlots = 2;
constexpr milliseconds kFirstReadyPoll{5};
constexpr milliseconds kLongestReadyPoll{500};
// How long one call of begin_step waits: short, so that a restart of the server costs little.
constexpr milliseconds kBeginStepWait{1000};
constexpr std::chrono::seconds kLogLongWaits{10};

/// A variable as pushes have to fit it.
struct TensorForm {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};

TensorForm form_of(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
}

std::uint64_t bytes_of(const TensorForm& form) {
  return static_cast<std::uint64_t>(c10::multiply_integers(form.sizes)) *
         c10::elementSize(form.dtype);
}

std::uint64_t row_bytes_of(const TensorForm& form) {
  const bool has_rows = !form.sizes.empty() && form.sizes.front() > 0;
  return has_rows ? bytes_of(form) / static_cast<std::uint64_t>(form.sizes.front()) : 0;
}

std::uint64_t bytes_of(const std::vector<NamedState>& variables) {
  std::uint64_t bytes = 0;
  for (const NamedState& each : variables) {
    bytes += each.state.value.nbytes();
    for (const at::Tensor& slot : each.state.slots) bytes += slot.nbytes();
  }
  return bytes;
}

std::string text_of(const TensorForm& form) {
  return base::str_cat(at::toString(form.dtype), "[", base::join(form.sizes, ", "), "]");
}

void check_services(const std::vector<std::unique_ptr<ParameterService>>& services) {
  check_argument(!services.empty(), "A job needs at least 1 parameter server, and has none.");
  for (const auto& service : services)
    check_argument(service != nullptr, "A connection to a parameter server is null.");
}

void check_push_dtype(const ParameterClientOptions& options) {
  if (!options.push_dtype) return;
  check_argument(*options.push_dtype == at::kBFloat16,
                 base::str_cat("Gradients cannot be pushed as ", c10::toString(*options.push_dtype),
                               ": push_dtype is bfloat16, or unset."));
}

void check_timeouts(const ParameterClientOptions& options) {
  for (const milliseconds time : {options.server_timeout, options.attempt_timeout})
    check_argument(time.count() > 0, base::str_cat("A parameter client's timeout is ", time.count(),
                                                   " ms; it must be positive."));
}

}  // namespace

class ParameterClient::Impl {
 public:
  Impl(const cluster::Task& task, std::vector<std::unique_ptr<ParameterService>> services,
       const ParameterClientOptions& options);
  ~Impl() { end_renewals(); }
  void leave();

  int num_servers() const { return static_cast<int>(sessions_.size()); }
  std::int64_t incarnation() const { return incarnation_; }
  std::int64_t step() const { return step_; }
  bool has_failed() const { return has_failed_; }

  /// Makes a call of the client: notes its failure, and that this task was replaced.
  template <class Call>
  auto guarded(const Call& call) {
    const CallClock::Call in_call(options_.calls.get());
    throw_if_replaced();
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
      note_replaced(std::current_exception());
      throw;
    } catch (...) {
      has_failed_ = true;
      throw_if_replaced();  // the other errors are consequences
      throw;
    }
  }

  bool is_in_progress() { return std::ranges::any_of(statuses(), &ServerStatus::is_ready); }
  bool create(std::span<const Creation> variables, std::span<const PlacedVariable> placement,
              const optim::UpdateRule& rule, const JobConfig& job);
  void wait_ready(std::span<const PlacedVariable> placement, const JobConfig& job);
  void set_ready();
  void assign(std::span<const NamedState> variables, std::int64_t step);
  void set_learning_rate(double rate);
  double learning_rate();
  States states();
  Values pull();
  void pull_by_rows(std::size_t variable) { is_by_rows_.at(variable) = true; }
  std::vector<at::Tensor> pull_rows(std::span<const at::Tensor> indices);
  Values push(std::span<const at::Tensor> gradients);
  void begin_step();

 private:
  // Memberships.
  void start_renewals();
  void end_renewals();
  milliseconds renew_lease(int server);
  milliseconds renewal_interval(int server) const;
  void note_replaced(const std::exception_ptr& error);
  void throw_if_replaced() const;
  std::string server_name(int server) const { return session(server).name(); }
  ServerSession& session(int server) const { return *sessions_[static_cast<std::size_t>(server)]; }
  template <class Work>
  void for_each_server(const Work& work);

  // Before training.
  std::vector<ServerStatus> statuses();
  static bool is_partly_ready(const std::vector<ServerStatus>& statuses);
  void check_whole(const std::vector<ServerStatus>& statuses) const;
  void check_job(const std::vector<ServerStatus>& statuses, const JobConfig& job) const;
  std::string not_ready(const std::vector<ServerStatus>& statuses) const;
  void use(PlacedVariables variables, const JobConfig& job);
  void check_configured() const;

  // Training.
  enum class Pulled { kNothing, kAllValues };
  Values exchange(std::vector<std::optional<Push>> pushes, Pulled pulled);
  void take_moments(const std::vector<ExchangeReply>& replies, Pulled pulled, Values& values);
  void note_read(int server, std::int64_t step);
  ServerStates read_states();
  std::vector<std::size_t> wholes_of(int server) const;
  std::uint64_t value_bytes(const std::vector<std::size_t>& variables) const;
  void check_count(int server, std::size_t expected, std::size_t got) const;
  void check_gradients(std::span<const at::Tensor> gradients) const;
  at::Tensor to_push(const at::Tensor& values) const;
  std::vector<std::optional<Push>> pushes_of(std::span<const at::Tensor> gradients) const;

  const ParameterClientOptions options_;
  const concurrency::LinkedToken stop_;  // cancelled by the user, or when this task was replaced
  std::vector<std::unique_ptr<ServerSession>> sessions_;
  ServerThreads threads_;
  std::int64_t incarnation_ = 0;
  bool has_failed_ = false;  // the latest call
  bool is_chief_ = false;    // it has created the variables

  mutable concurrency::Mutex mutex_;
  std::exception_ptr replaced_ BRIGADE_GUARDED_BY(mutex_);

  PlacedVariables variables_;
  std::optional<JobConfig> job_;      // unset before `create` and `wait_ready`
  std::optional<WorkerSteps> steps_;  // as job_
  std::vector<TensorForm> forms_;     // of the variables; empty until they are known
  std::vector<bool> is_by_rows_;      // of the variables: not pulled as wholes
  ReadMoments reads_;                 // of the values that this worker has
  std::int64_t step_ = 0;

  const concurrency::LinkedToken renewals_end_;
  // [server]: a server that does not answer must not cost the others their leases.
  std::vector<std::unique_ptr<LeaseRenewal>> lease_renewals_;
  // Last: the services must exist while it may run.
  concurrency::CancelRegistration close_on_stop_;
};

ParameterClient::Impl::Impl(const cluster::Task& task,
                            std::vector<std::unique_ptr<ParameterService>> services,
                            const ParameterClientOptions& options)
    : options_(options),
      stop_(options.cancel),
      threads_(static_cast<int>(services.size())),
      renewals_end_(stop_.token()) {
  for (std::size_t i = 0; i < services.size(); ++i)
    sessions_.push_back(std::make_unique<ServerSession>(
        std::move(services[i]), ServerSessionOptions{.task = task,
                                                     .server = static_cast<int>(i),
                                                     .server_timeout = options.server_timeout,
                                                     .attempt_timeout = options.attempt_timeout,
                                                     .cancel = stop_.token()}));
  close_on_stop_ = stop_.token().on_cancel([this] {
    for (const auto& each : sessions_) each->close();
  });
  incarnation_ = session(0).join(0);
  // Before the other joins: they wait for servers that start later.
  start_renewals();
  for_each_server([this](int server) {
    if (server > 0) session(server).join(incarnation_);
  });
}

void ParameterClient::Impl::start_renewals() {
  for (int server = 0; server < num_servers(); ++server)
    lease_renewals_.push_back(std::make_unique<LeaseRenewal>(
        renewal_interval(server), [this, server] { return renew_lease(server); },
        renewals_end_.token()));
}

void ParameterClient::Impl::end_renewals() {
  renewals_end_.cancel();  // all, before the first is waited for
  lease_renewals_.clear();
}

/// That of the first server until the task has joined this one.
milliseconds ParameterClient::Impl::renewal_interval(int server) const {
  const milliseconds own = session(server).lease();
  const milliseconds lease = own.count() > 0 ? own : session(0).lease();
  return std::max(lease / 4, milliseconds(1));
}

milliseconds ParameterClient::Impl::renew_lease(int server) {
  try {
    session(server).renew(Clock::now() + kRenewalTime);
  } catch (const ReplacedError&) {
    note_replaced(std::current_exception());
  } catch (const std::exception&) {
    // The next call to this server has the same error, and throws it.
  }
  return renewal_interval(server);
}

void ParameterClient::Impl::note_replaced(const std::exception_ptr& error) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!replaced_) replaced_ = error;
  }
  stop_.cancel();
}

void ParameterClient::Impl::throw_if_replaced() const {
  const concurrency::MutexLock lock(mutex_);
  if (replaced_) std::rethrow_exception(replaced_);
}

/// `work(server)` for all servers at the same time.
template <class Work>
void ParameterClient::Impl::for_each_server(const Work& work) {
  threads_.run([&](int server) {
    try {
      work(server);
    } catch (const ReplacedError&) {
      note_replaced(std::current_exception());
      throw;
    }
  });
}

void ParameterClient::Impl::leave() {
  const Time end = Clock::now() + (is_chief_ ? kChiefLeaveTime : kLeaveTime);
  end_renewals();  // else they would join again
  threads_.run([&](int server) { session(server).leave(end); });
}

std::vector<ServerStatus> ParameterClient::Impl::statuses() {
  std::vector<ServerStatus> statuses(sessions_.size());
  for_each_server([&](int server) {
    statuses[static_cast<std::size_t>(server)] =
        session(server).call([](ParameterService& service, const std::string& token,
                                Time deadline) { return service.renew(token, deadline); });
  });
  step_ = statuses.front().step;
  return statuses;
}

/// Whether one server is ready while another has no variables.
bool ParameterClient::Impl::is_partly_ready(const std::vector<ServerStatus>& statuses) {
  return std::ranges::any_of(statuses, &ServerStatus::is_ready) &&
         !std::ranges::all_of(statuses, &ServerStatus::is_created);
}

void ParameterClient::Impl::check_whole(const std::vector<ServerStatus>& statuses) const {
  if (!is_partly_ready(statuses)) return;
  const auto empty = std::ranges::find(statuses, false, &ServerStatus::is_created);
  throw Error(ErrorCode::kDataLoss,
              base::str_cat("The ", server_name(static_cast<int>(empty - statuses.begin())),
                            " has no variables, and others have those of a job in progress: "
                            "its folder was lost. Give it the folder, or empty the folders of "
                            "all servers and start from a checkpoint."));
}

void ParameterClient::Impl::check_job(const std::vector<ServerStatus>& statuses,
                                      const JobConfig& job) const {
  for (int server = 0; server < num_servers(); ++server) {
    const ServerStatus& status = statuses[static_cast<std::size_t>(server)];
    check_state(!status.is_created || status.job == job,
                base::str_cat("The chief has configured the ", server_name(server),
                              " for another update mode, staleness, number of replicas, or rate "
                              "that follows staleness than this worker: start all tasks with the "
                              "same options."));
  }
}

std::string ParameterClient::Impl::not_ready(const std::vector<ServerStatus>& statuses) const {
  std::vector<std::string> names;
  for (int server = 0; server < num_servers(); ++server)
    if (!statuses[static_cast<std::size_t>(server)].is_ready) names.push_back(server_name(server));
  return base::join(names, ", ");
}

void ParameterClient::Impl::use(PlacedVariables variables, const JobConfig& job) {
  variables_ = std::move(variables);
  is_by_rows_.assign(variables_.size(), false);
  job_ = job;
  steps_.emplace(job.mode);
  reads_ = ReadMoments(num_servers());
}

void ParameterClient::Impl::check_configured() const {
  check_state(job_.has_value(),
              "The parameter servers' variables are not known yet: call create, or wait_ready, "
              "first.");
}

bool ParameterClient::Impl::create(std::span<const Creation> variables,
                                   std::span<const PlacedVariable> placement,
                                   const optim::UpdateRule& rule, const JobConfig& job) {
  PlacedVariables placed(placement, num_servers());
  std::vector<std::vector<Creation>> parts = placed.divide(variables);
  const std::vector<ServerStatus> before = statuses();
  check_whole(before);
  const bool is_in_progress = std::ranges::any_of(before, &ServerStatus::is_ready);
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
  forms_.assign(placed.size(), {});
  for (const Creation& each : variables) forms_[*placed.find(each.name)] = form_of(each.value);
  use(std::move(placed), job);
  is_chief_ = true;
  if (is_in_progress) set_ready();  // an earlier chief may have reached only some servers
  return is_in_progress;
}

void ParameterClient::Impl::wait_ready(std::span<const PlacedVariable> placement,
                                       const JobConfig& job) {
  PlacedVariables placed(placement, num_servers());
  milliseconds pause = kFirstReadyPoll;
  while (true) {
    std::vector<ServerStatus> now = statuses();
    // One may have answered before the chief created variables, and another after it let workers
    // in.
    if (is_partly_ready(now)) now = statuses();
    check_whole(now);
    check_job(now, job);
    const std::string waits_for = not_ready(now);
    if (waits_for.empty()) break;
    if (pause == kFirstReadyPoll)
      base::log_info(base::str_cat("Waiting until the chief has initialized the ", waits_for, "."));
    concurrency::interruptible_wait(pause, stop_.token());
    stop_.token().throw_if_cancelled("waiting until the chief has initialized the variables");
    pause = std::min(2 * pause, kLongestReadyPoll);
  }
  for (const auto& each : sessions_) each->expect_variables();
  forms_.clear();
  use(std::move(placed), job);
}

void ParameterClient::Impl::set_ready() {
  check_configured();
  for_each_server([&](int server) {
    session(server).tell([](ParameterService& service, const std::string& token, Time deadline) {
      service.set_ready(token, deadline);
    });
  });
}

void ParameterClient::Impl::assign(std::span<const NamedState> variables, std::int64_t step) {
  check_configured();
  const std::vector<std::vector<NamedState>> parts = variables_.divide(variables);
  for_each_server([&](int server) {
    const std::vector<NamedState>& part = parts[static_cast<std::size_t>(server)];
    session(server).tell([&](ParameterService& service, const std::string& token,
                             Time deadline) { service.assign(token, part, step, deadline); },
                         bytes_of(part));
  });
  step_ = step;
}

void ParameterClient::Impl::set_learning_rate(double rate) {
  check_configured();
  for_each_server([&](int server) {
    session(server).tell([&](ParameterService& service, const std::string& token, Time deadline) {
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
  ServerStates read = job_->mode == UpdateMode::kSync
                          ? states_of_one_step([this] { return read_states(); },
                                               options_.server_timeout, stop_.token())
                          : read_states();
  step_ = read.front()->step;
  States states{.variables = std::vector<NamedState>(variables_.size()), .step = step_};
  for (int server = 0; server < num_servers(); ++server) {
    auto& part = read[static_cast<std::size_t>(server)];
    if (!part) continue;
    if (!part->variables.empty()) note_read(server, part->step);
    for (std::size_t i = 0; i < part->variables.size(); ++i)
      states.variables[variables_.of_server(server)[i]] = std::move(part->variables[i]);
  }
  return states;
}

/// Once from each server that has variables, and from `ps:0`, after the latest decision that is
/// known. What they say of later ones is known afterwards.
ServerStates ParameterClient::Impl::read_states() {
  // All servers first, so that all are then read at nearly the same time.
  if (steps_->decision()) {
    for_each_server([this](int server) {
      session(server).exchange({.decision = steps_->decision(), .pull = {}});
    });
  }
  ServerStates states(sessions_.size());
  for_each_server([&](int server) {
    const std::vector<std::string> names = variables_.names_of_server(server);
    if (server > 0 && names.empty()) return;
    StoredStates part =
        session(server).call([&](ParameterService& service, const std::string& token,
                                 Time deadline) { return service.states(token, names, deadline); },
                             (1 + kCommonSlots) * value_bytes(variables_.of_server(server)));
    check_count(server, names.size(), part.variables.size());
    states[static_cast<std::size_t>(server)] = std::move(part);
  });
  for (const auto& part : states)
    if (part && part->decision) steps_->learn(*part->decision);
  return states;
}

/// One exchange with every server that has something to do.
ParameterClient::Values ParameterClient::Impl::exchange(std::vector<std::optional<Push>> pushes,
                                                        Pulled pulled) {
  Values values;
  if (pulled == Pulled::kAllValues) values.values.resize(variables_.size());
  std::vector<ExchangeReply> replies(sessions_.size());
  for_each_server([&](int server) {
    ExchangeRequest request{.push = std::move(pushes[static_cast<std::size_t>(server)]),
                            .decision = steps_->decision(),
                            .pull = {}};
    const std::vector<std::size_t> wanted =
        pulled == Pulled::kAllValues ? wholes_of(server) : std::vector<std::size_t>();
    for (const std::size_t i : wanted) request.pull.push_back(variables_[i].name);
    // A server of which only rows are pulled says its step.
    const bool has_nothing = pulled == Pulled::kNothing || variables_.of_server(server).empty();
    if (server > 0 && !request.push && has_nothing) return;
    ExchangeReply reply = session(server).exchange(std::move(request), value_bytes(wanted));
    check_count(server, wanted.size(), reply.values.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      values.values[wanted[i]] = std::move(reply.values[i]);
    replies[static_cast<std::size_t>(server)] = std::move(reply);
  });
  take_moments(replies, pulled, values);
  step_ = values.step;
  return values;
}

/// When the values of the replies were read, and how stale the pushes were.
void ParameterClient::Impl::take_moments(const std::vector<ExchangeReply>& replies, Pulled pulled,
                                         Values& values) {
  values.step = values.oldest_step = values.newest_step = replies.front().step;
  bool is_first = true;
  for (int server = 0; server < num_servers(); ++server) {
    if (variables_.of_server(server).empty()) continue;
    const ExchangeReply& reply = replies[static_cast<std::size_t>(server)];
    if (reply.staleness) values.staleness = std::max(values.staleness, reply.staleness);
    if (pulled == Pulled::kNothing) continue;
    note_read(server, reply.step);
    values.oldest_step = is_first ? reply.step : std::min(values.oldest_step, reply.step);
    values.newest_step = is_first ? reply.step : std::max(values.newest_step, reply.step);
    is_first = false;
  }
}

void ParameterClient::Impl::note_read(int server, std::int64_t step) {
  reads_.note(server, step, session(server).acknowledged());
}

/// The variables of a server that are pulled as wholes: all before their shapes are known.
std::vector<std::size_t> ParameterClient::Impl::wholes_of(int server) const {
  std::vector<std::size_t> wholes;
  for (const std::size_t i : variables_.of_server(server))
    if (forms_.empty() || !is_by_rows_[i]) wholes.push_back(i);
  return wholes;
}

/// 0 until the variables are known.
std::uint64_t ParameterClient::Impl::value_bytes(const std::vector<std::size_t>& variables) const {
  std::uint64_t bytes = 0;
  if (forms_.empty()) return bytes;
  for (const std::size_t i : variables) bytes += bytes_of(forms_[i]);
  return bytes;
}

void ParameterClient::Impl::check_count(int server, std::size_t expected, std::size_t got) const {
  if (expected == got) return;
  throw Error(ErrorCode::kInternal, base::str_cat("The ", server_name(server), " sent ", got,
                                                  " variables, and was asked for ", expected, "."));
}

ParameterClient::Values ParameterClient::Impl::pull() {
  check_configured();
  Values values = exchange(std::vector<std::optional<Push>>(sessions_.size()), Pulled::kAllValues);
  forms_.resize(values.values.size());
  for (std::size_t i = 0; i < forms_.size(); ++i)
    if (values.values[i].value.defined()) forms_[i] = form_of(values.values[i].value);
  return values;
}

std::vector<at::Tensor> ParameterClient::Impl::pull_rows(std::span<const at::Tensor> indices) {
  check_configured();
  check_argument(
      indices.size() == variables_.size(),
      base::str_cat("Rows of ", indices.size(), " variables are pulled, and the job has ",
                    variables_.size(), " variables: pass indices for each, undefined for none."));
  std::vector<at::Tensor> rows(indices.size());
  for_each_server([&](int server) {
    ExchangeRequest request{.decision = steps_->decision(), .pull = {}};
    std::vector<std::size_t> wanted;
    std::uint64_t bytes = 0;
    for (const std::size_t i : variables_.of_server(server)) {
      if (!indices[i].defined()) continue;
      wanted.push_back(i);
      request.pull_rows.push_back({.name = variables_[i].name, .indices = indices[i].contiguous()});
      if (!forms_.empty())
        bytes += row_bytes_of(forms_[i]) * static_cast<std::uint64_t>(indices[i].numel());
    }
    if (wanted.empty()) return;
    ExchangeReply reply = session(server).exchange(std::move(request), bytes);
    check_count(server, wanted.size(), reply.rows.size());
    if (wholes_of(server).empty())
      reads_.note_rows(server, reply.step, session(server).acknowledged());
    for (std::size_t i = 0; i < wanted.size(); ++i) rows[wanted[i]] = std::move(reply.rows[i]);
  });
  return rows;
}

ParameterClient::Values ParameterClient::Impl::push(std::span<const at::Tensor> gradients) {
  check_configured();
  check_state(steps_->may_push(),
              "A worker pushes the gradients of a step that it has begun: call "
              "begin_step first.");
  if (forms_.size() != variables_.size()) pull();
  check_gradients(gradients);
  const bool has_values = job_->mode != UpdateMode::kSync;
  Values values =
      exchange(pushes_of(gradients), has_values ? Pulled::kAllValues : Pulled::kNothing);
  steps_->finish();
  return values;
}

void ParameterClient::Impl::check_gradients(std::span<const at::Tensor> gradients) const {
  check_argument(gradients.size() == variables_.size(),
                 base::str_cat("A push has ", gradients.size(), " gradients, and the job has ",
                               variables_.size(),
                               " variables: pass one for each, undefined for "
                               "none."));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& gradient = gradients[i];
    if (!gradient.defined()) continue;
    const std::string name = base::quoted(variables_[i].name);
    check_argument(variables_[i].is_trainable,
                   base::str_cat("A push has a gradient of ", name, ", which is not trainable."));
    check_argument(
        gradient.device().is_cpu() &&
            (gradient.layout() == at::kStrided || comm::has_rows(gradient)),
        base::str_cat(
            "The gradient of ", name, " is on ", gradient.device().str(), " with layout ",
            gradient.layout(),
            ": it has to be on the CPU, and dense, or sparse along its first dimension."));
    const TensorForm form = form_of(gradient);
    check_argument(form == forms_[i],
                   base::str_cat("The gradient of ", name, " is ", text_of(form),
                                 ", and the variable is ", text_of(forms_[i]), "."));
  }
}

/// Contiguous, and of the dtype in which it travels.
at::Tensor ParameterClient::Impl::to_push(const at::Tensor& values) const {
  const at::Tensor own = values.detach();
  const at::ScalarType dtype = options_.push_dtype.value_or(own.scalar_type());
  return (may_push(dtype, own.scalar_type()) ? own.to(dtype) : own).contiguous();
}

/// [server]: every server gets a push, so that their numbers agree.
std::vector<std::optional<Push>> ParameterClient::Impl::pushes_of(
    std::span<const at::Tensor> gradients) const {
  std::vector<std::optional<Push>> pushes(sessions_.size(),
                                          Push{.token = steps_->token(), .gradients = {}});
  // No synchronous gradient is stale: it counts for its token or not at all.
  for (int server = 0; server < num_servers() && job_->mode != UpdateMode::kSync; ++server)
    pushes[static_cast<std::size_t>(server)]->read_at =
        reads_.read_at(server, session(server).acknowledged());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const std::string& name = variables_[i].name;
    Push& push = *pushes[static_cast<std::size_t>(variables_[i].server)];
    if (comm::has_rows(gradients[i])) {
      comm::Rows rows = comm::rows_of(gradients[i].detach());
      push.rows.push_back(
          {.name = name, .indices = std::move(rows.indices), .values = to_push(rows.values)});
    } else {
      push.gradients.push_back({.name = name, .tensor = to_push(gradients[i])});
    }
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
    stop_.token().throw_if_cancelled("waiting for the next step");
    if (!is_logged && Clock::now() - begin > kLogLongWaits) {
      is_logged = true;
      base::log_info(base::str_cat("Waiting for the next step",
                                   reply.waiting_for.empty()
                                       ? std::string()
                                       : ", for " + base::listed(reply.waiting_for, ", "),
                                   "."));
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
    // No memory to tell the servers: the leases run out.
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

void ParameterClient::begin_step() {
  impl_->guarded([&] { impl_->begin_step(); });
}

std::int64_t ParameterClient::step() const {
  return impl_->step();
}

}  // namespace brigade::ps
