#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/forwarding_service.h"

/// What a worker asks of its parameter servers and what it is told, as a file that
/// tools/push_history.py checks.
namespace brigade::ps::history {

/// A job's variable on each server: float64 [workers, kIncarnations, kSums]. With stochastic
/// gradient descent at a rate of 1, push `n` of a worker's incarnation adds 1, n and n^2 to the
/// three elements of that incarnation: so the values say which pushes were applied. All sums are
/// whole numbers that float64 has exactly.
inline constexpr int kIncarnations = 32;
inline constexpr int kSums = 3;

/// Nanoseconds of the machine's monotonic clock, which all processes share.
inline std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A file of events, one JSON object a line. Each line is in the system's hands when `add` returns,
/// so SIGKILL costs at most the line that is being written.
///
/// Thread-safety: all functions from any thread.
class History {
 public:
  explicit History(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    if (!file_.is_open())
      throw Error(ErrorCode::kPermissionDenied,
                  base::str_cat(path, " cannot be written: ", std::strerror(errno)));
  }

  /// `fields`: "\"number\": 3".
  void add(const char* event, std::int64_t at, const std::string& fields) {
    const std::string line =
        base::str_cat("{\"event\": \"", event, "\", \"at\": ", at, ", ", fields, "}\n");
    const concurrency::MutexLock lock(mutex_);
    if (::write(file_.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw Error(ErrorCode::kInternal,
                  base::str_cat("A history cannot be written: ", std::strerror(errno)));
  }

 private:
  const base::FileDescriptor file_;
  concurrency::Mutex mutex_;  // one line at a time
};

/// A parameter server as a worker sees it, with a history of the calls.
///
/// Thread-safety: as `ParameterService`, except that one thread at a time exchanges.
class RecordedService final : public ForwardingService<ParameterService> {
 public:
  RecordedService(std::unique_ptr<ParameterService> service, int server, int rank, History& history)
      : service_(std::move(service)), server_(server), rank_(rank), history_(history) {}

  Grant join(const JoinRequest& request, Time deadline) override {
    Grant grant = service_->join(request, deadline);
    add("joined", base::str_cat("\"rank\": ", rank_, ", \"incarnation\": ", grant.incarnation));
    return grant;
  }
  std::string name() const override { return service_->name(); }
  void close() override { service_->close(); }

  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override {
    return recorded(request, [&] { return service_->exchange(token, request, deadline); });
  }
  std::unique_ptr<OpenExchange> begin_exchange(const std::string& token,
                                               const ExchangeRequest& request,
                                               Time deadline) override {
    auto exchange = service_->begin_exchange(token, request, deadline);
    if (!exchange) return nullptr;
    return std::make_unique<RecordedExchange>(*this, request, std::move(exchange));
  }

  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override {
    BeginStepReply reply = service_->begin_step(token, request, deadline);
    if (reply.decision) add("decision", decision_text(*reply.decision));
    return reply;
  }

 private:
  void forward(ServiceMethod, Time, const Call& call) override { call(*service_); }

  /// A push that is sent while it comes into being. One that is given up is no event: no server may
  /// have it.
  class RecordedExchange final : public OpenExchange {
   public:
    RecordedExchange(RecordedService& service, ExchangeRequest request,
                     std::unique_ptr<OpenExchange> exchange)
        : service_(service), request_(std::move(request)), exchange_(std::move(exchange)) {}
    void add(const at::Tensor& gradient) override {
      request_.push->gradients.at(added_++).tensor = gradient;
      exchange_->add(gradient);
    }
    ExchangeReply finish() override {
      return service_.recorded(request_, [&] { return exchange_->finish(); });
    }

   private:
    RecordedService& service_;
    ExchangeRequest request_;
    const std::unique_ptr<OpenExchange> exchange_;
    std::size_t added_ = 0;
  };

  template <class Call>
  ExchangeReply recorded(const ExchangeRequest& request, const Call& call) {
    const std::int64_t begin = now();
    if (request.push)
      add("push", base::str_cat(number_of(*request.push), ", \"sums\": ",
                                pushed_sums(*request.push), token_of(request.push->token)));
    ExchangeReply reply = call();
    if (request.push) {
      last_push_ = request.push->number;
      const std::string acknowledged =
          reply.acknowledged ? base::str_cat(", \"acknowledged\": ", *reply.acknowledged) : "";
      add("answer", base::str_cat(number_of(*request.push), ", \"verdict\": \"",
                                  verdict_text(reply.verdict), "\"", acknowledged));
    }
    if (request.await_disk) add("on_disk", base::str_cat("\"number\": ", last_push_));
    if (!reply.values.empty()) {
      const std::string decided =
          request.decision ? base::str_cat(", \"decided\": ", request.decision->step) : "";
      add("pulled", base::str_cat("\"from\": ", begin, ", \"step\": ", reply.step, decided,
                                  ", \"changes\": ", changes(reply.values.front().value)));
    }
    return reply;
  }

  void add(const char* event, const std::string& fields) {
    history_.add(event, now(), base::str_cat("\"server\": ", server_, ", ", fields));
  }

  static std::string as_list(const std::vector<std::string>& items) {
    return base::str_cat("[", base::join(items, ", "), "]");
  }
  static std::string number_of(const Push& push) {
    return base::str_cat("\"number\": ", push.number);
  }
  static std::string token_of(const std::optional<coordination::StepDecider::Token>& token) {
    if (!token) return {};
    return base::str_cat(", \"token\": [", token->step, ", ", token->index, "]");
  }
  static const char* verdict_text(const std::optional<coordination::PushVerdict>& verdict) {
    using coordination::PushVerdict;
    if (!verdict) return "none";
    switch (*verdict) {
      case PushVerdict::kApply:
        return "apply";
      case PushVerdict::kDuplicate:
        return "duplicate";
      case PushVerdict::kGap:
        return "gap";
      case PushVerdict::kFenced:
        return "fenced";
    }
    return "unknown";
  }
  static std::string decision_text(const coordination::StepDecision& decision) {
    std::vector<std::string> contributions;
    for (const coordination::Contribution& each : decision.contributions)
      contributions.push_back(base::str_cat("[", each.worker, ", ", each.index, "]"));
    return base::str_cat("\"step\": ", decision.step,
                         ", \"contributions\": ", as_list(contributions));
  }

  /// What the push adds: [[rank, incarnation, count, sum, squares], ...] of the elements that
  /// change.
  static std::string pushed_sums(const Push& push) {
    if (push.gradients.empty()) return "[]";
    const at::Tensor added = push.gradients.front().tensor.neg();
    return sums_text(std::vector<double>(static_cast<std::size_t>(added.numel()), 0), added);
  }
  /// What differs from the values that were pulled before.
  std::string changes(const at::Tensor& value) {
    if (last_.empty()) last_.assign(static_cast<std::size_t>(value.numel()), 0);
    std::string text = sums_text(last_, value);
    const double* values = value.const_data_ptr<double>();
    last_.assign(values, values + value.numel());
    return text;
  }
  static std::string sums_text(const std::vector<double>& before, const at::Tensor& value) {
    const double* values = value.const_data_ptr<double>();
    std::vector<std::string> entries;
    for (std::size_t i = 0; i + kSums <= before.size(); i += kSums) {
      if (std::equal(values + i, values + i + kSums, before.begin() + static_cast<long>(i)))
        continue;
      const std::size_t row = i / kSums;
      std::string entry = base::str_cat("[", row / kIncarnations, ", ", row % kIncarnations);
      for (std::size_t k = 0; k < kSums; ++k)
        entry += base::str_cat(", ", static_cast<std::int64_t>(values[i + k]));
      entries.push_back(entry + "]");
    }
    return as_list(entries);
  }

  const std::unique_ptr<ParameterService> service_;
  const int server_;
  const int rank_;
  History& history_;
  // Of the thread that exchanges.
  std::vector<double> last_;    // the values that were pulled
  std::int64_t last_push_ = 0;  // the number of the last one that was answered
};

}  // namespace brigade::ps::history
