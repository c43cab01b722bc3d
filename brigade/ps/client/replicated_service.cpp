#include "brigade/ps/client/replicated_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/acting_choice.h"
#include "brigade/ps/client/repeated_call.h"
#include "brigade/ps/forwarding_service.h"
#include "brigade/ps/server/server_threads.h"

namespace brigade::ps {
namespace {

using coordination::ActingChoice;
using coordination::PairStatus;
using Connect = std::function<std::unique_ptr<PairedService>()>;

// How long a process may take to report its role. One that is stopped, or whose host is lost, does
// not.
constexpr std::chrono::milliseconds kAnswerTime{1000};

/// An exchange with the process that acted when it began.
class ReplicatedExchange final : public OpenExchange {
 public:
  /// `doubt` is called with what `finish` throws. `service` is kept.
  ReplicatedExchange(std::shared_ptr<PairedService> service, std::unique_ptr<OpenExchange> exchange,
                     std::function<void(const Error&)> doubt)
      : service_(std::move(service)), exchange_(std::move(exchange)), doubt_(std::move(doubt)) {}

  void add(const at::Tensor& gradient) override { exchange_->add(gradient); }
  ExchangeReply finish() override {
    try {
      return exchange_->finish();
    } catch (const Error& error) {
      doubt_(error);
      throw;
    }
  }

 private:
  const std::shared_ptr<PairedService> service_;
  const std::unique_ptr<OpenExchange> exchange_;
  const std::function<void(const Error&)> doubt_;
};

class ReplicatedService final : public ForwardingService<ParameterService> {
 public:
  ReplicatedService(cluster::Task task, std::vector<Connect> connect)
      : task_(std::move(task)),
        connect_(std::move(connect)),
        threads_(static_cast<int>(connect_.size())) {
    for (const Connect& each : connect_) services_.push_back(each());
  }

  bool copies_pushes() const override {
    const concurrency::MutexLock lock(mutex_);
    return std::ranges::all_of(services_, [](const auto& each) { return each->copies_pushes(); });
  }
  std::unique_ptr<OpenExchange> begin_exchange(const std::string& token,
                                               const ExchangeRequest& request,
                                               Time deadline) override {
    const auto used = known();
    if (!used) return nullptr;  // the exchange itself looks for the one that acts
    auto exchange = used->service->begin_exchange(token, request, deadline);
    if (!exchange) return nullptr;
    return std::make_unique<ReplicatedExchange>(
        used->service, std::move(exchange),
        [this, used = *used](const Error& error) { doubt(used, error); });
  }

  std::string name() const override {
    const concurrency::MutexLock lock(mutex_);
    if (is_sure_) return services_[acting_]->name();
    std::vector<std::string> names;
    for (const auto& each : services_) names.push_back(each->name());
    return base::join(names, " or ");
  }
  void close() override {
    const concurrency::MutexLock lock(mutex_);
    is_closed_ = true;
    for (const auto& each : services_) each->close();
  }

 private:
  struct Used {
    std::shared_ptr<PairedService> service;
    std::uint64_t search = 0;  // which one has found it
  };

  void forward(ServiceMethod, Time deadline, const Call& call) override {
    const Used used = acting(deadline);
    try {
      call(*used.service);
    } catch (const Error& error) {
      doubt(used, error);
      throw;
    }
  }

  /// A process that is busy, or does not know the caller, acts.
  void doubt(const Used& used, const Error& error) BRIGADE_EXCLUDES(mutex_) {
    if (!may_call_again(error) || dynamic_cast<const NotMemberError*>(&error) != nullptr ||
        dynamic_cast<const ServerBusyError*>(&error) != nullptr)
      return;
    const concurrency::MutexLock lock(mutex_);
    if (used.search == searches_) is_sure_ = false;
  }

  std::optional<Used> known() const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    if (is_closed_)
      throw Error(ErrorCode::kUnavailable, "The connection to the parameter server was closed.");
    if (!is_sure_) return std::nullopt;
    return Used{.service = services_[acting_], .search = searches_};
  }

  Used acting(Time deadline) BRIGADE_EXCLUDES(searching_, mutex_) {
    if (auto used = known()) return *used;
    const concurrency::MutexLock one_at_a_time(searching_);
    if (auto used = known()) return *used;
    const auto answers = query_all(deadline);
    ActingChoice::Choice choice = choice_.choose(answers);
    if (choice.kind == ActingChoice::Kind::kVote) {
      vote(choice, answers[choice.server].value(), deadline);
      choice = choice_.choose(query_all(deadline));
    }
    if (choice.kind != ActingChoice::Kind::kUse)
      throw Error(ErrorCode::kUnavailable, "Neither process of the parameter server (", name(),
                  ") acts at the moment. If all processes of the job were started again, both have "
                  "to answer first.");
    return use(choice.server);
  }

  std::shared_ptr<PairedService> service(std::size_t server) const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    return services_[server];
  }

  std::vector<std::optional<PairStatus>> query_all(Time deadline) BRIGADE_REQUIRES(searching_) {
    std::vector<std::optional<PairStatus>> answers(connect_.size());
    const Time until = std::min(deadline, std::chrono::steady_clock::now() + kAnswerTime);
    threads_.run([&](int server) {
      const auto index = static_cast<std::size_t>(server);
      try {
        answers[index] = service(index)->role(until).status;
      } catch (const Error& error) {
        if (!may_call_again(error)) throw;
      }
    });
    return answers;
  }

  void vote(const ActingChoice::Choice& choice, const PairStatus& candidate, Time deadline)
      BRIGADE_REQUIRES(searching_) {
    const Time until = std::min(deadline, std::chrono::steady_clock::now() + kAnswerTime);
    try {
      const PairStatus status = service(choice.server)
                                    ->vote({.voter = task_,
                                            .epoch = choice.epoch,
                                            .life = candidate.life,
                                            .candidacy = candidate.candidacy},
                                           until);
      if (status.role == coordination::PairRole::kCandidate) choice_.withdraw();
    } catch (const Error& error) {
      if (!may_call_again(error)) throw;  // the promise is kept, and the next call votes again
    }
  }

  Used use(std::size_t server) BRIGADE_REQUIRES(searching_) BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    if (server != acting_ && searches_ > 0) {
      base::log_warning("The parameter server at ", services_[acting_]->name(),
                        " was replaced by that at ", services_[server]->name(),
                        ", which has all its updates.");
      services_[acting_]->close();  // calls that are still there would wait for long
      services_[acting_] = connect_[acting_]();
    }
    acting_ = server;
    is_sure_ = true;
    ++searches_;
    if (is_closed_) services_[acting_]->close();
    return {.service = services_[acting_], .search = searches_};
  }

  const cluster::Task task_;
  const std::vector<Connect> connect_;

  concurrency::Mutex searching_;  // one search at a time; taken before mutex_
  ActingChoice choice_ BRIGADE_GUARDED_BY(searching_);
  ServerThreads threads_ BRIGADE_GUARDED_BY(searching_);
  mutable concurrency::Mutex mutex_;
  std::vector<std::shared_ptr<PairedService>> services_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t acting_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_sure_ BRIGADE_GUARDED_BY(mutex_) = false;  // that acting_ acts
  std::uint64_t searches_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<ParameterService> make_replicated_service(
    cluster::Task task, std::vector<std::function<std::unique_ptr<PairedService>()>> connect) {
  return std::make_unique<ReplicatedService>(std::move(task), std::move(connect));
}

}  // namespace brigade::ps
