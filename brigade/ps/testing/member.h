#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/local_service.h"

namespace brigade::ps::testing {

/// A task's membership of one server, for tests that make single calls: nothing is made again. The
/// model is one variable "w" of two zeros in float64, and the rule subtracts gradients from it.
class Member {
 public:
  using Token = coordination::StepDecider::Token;

  /// Joins.
  Member(std::unique_ptr<ParameterService> service, cluster::Task task,
         std::int64_t incarnation = 0)
      : task_(std::move(task)), service_(std::move(service)) {
    join(incarnation);
  }
  Member(LocalServer& server, const cluster::Task& task, std::int64_t incarnation = 0)
      : Member(server.connect(), task, incarnation) {}

  void join(std::int64_t incarnation) {
    grant_ = service_->join({.task = task_, .incarnation = incarnation}, deadline());
  }
  /// With the incarnation that it has.
  void join_again() { join(incarnation()); }
  void leave() { service_->leave(token(), deadline()); }

  const std::string& token() const { return grant_.token; }
  std::int64_t incarnation() const { return grant_.incarnation; }
  ParameterService& service() { return *service_; }

  static CreateRequest creation(const JobConfig& job) {
    return {.variables = {{.name = "w", .value = at::zeros({2}, at::kDouble)}},
            .rule = optim::Sgd{.learning_rate = 1}.rule()->config(),
            .job = job};
  }
  ServerStatus create(const JobConfig& job) {
    return service_->create(token(), creation(job), deadline());
  }
  void set_ready() { service_->set_ready(token(), deadline()); }

  /// Pushes a gradient of `value`. The reply has the value of "w", too.
  ExchangeReply push(std::int64_t number, double value,
                     const std::optional<Token>& for_token = std::nullopt) {
    return exchange({.push = Push{.number = number,
                                  .token = for_token,
                                  .gradients = {{"w", at::full({2}, value, at::kDouble)}}},
                     .pull = {"w"}});
  }
  /// The value of an element of "w", after `decision` was applied.
  double pull(const std::optional<coordination::StepDecision>& decision = std::nullopt) {
    return value_of(exchange({.decision = decision, .pull = {"w"}}));
  }
  static double value_of(const ExchangeReply& reply) {
    return reply.values.at(0).value[0].item<double>();
  }
  ExchangeReply exchange(const ExchangeRequest& request) {
    return service_->exchange(token(), request, deadline());
  }
  /// Does not wait, unless the request says so.
  BeginStepReply begin_step(const BeginStepRequest& request = {}) {
    return service_->begin_step(token(), request, deadline());
  }

  static ParameterService::Time deadline() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(30);
  }

 private:
  cluster::Task task_;
  std::unique_ptr<ParameterService> service_;
  Grant grant_;
};

}  // namespace brigade::ps::testing
