#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// A ParameterService each of whose calls another one serves. `Base` is ParameterService, or
/// PairedService; a derived class implements what else that has.
///
/// Thread-safety: as `forward`.
template <class Base>
class ForwardingService : public Base {
 public:
  using Time = ParameterService::Time;

  Grant join(const JoinRequest& request, Time deadline) override {
    return result_of(ServiceMethod::kJoin, deadline,
                     [&](ParameterService& to) { return to.join(request, deadline); });
  }
  ServerStatus renew(const std::string& token, Time deadline) override {
    return result_of(ServiceMethod::kRenew, deadline,
                     [&](ParameterService& to) { return to.renew(token, deadline); });
  }
  void leave(const std::string& token, Time deadline) override {
    forward(ServiceMethod::kLeave, deadline,
            [&](ParameterService& to) { to.leave(token, deadline); });
  }
  ServerStatus create(const std::string& token, const CreateRequest& request,
                      Time deadline) override {
    return result_of(ServiceMethod::kCreate, deadline,
                     [&](ParameterService& to) { return to.create(token, request, deadline); });
  }
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline) override {
    forward(ServiceMethod::kAssign, deadline,
            [&](ParameterService& to) { to.assign(token, variables, step, deadline); });
  }
  void set_ready(const std::string& token, Time deadline) override {
    forward(ServiceMethod::kSetReady, deadline,
            [&](ParameterService& to) { to.set_ready(token, deadline); });
  }
  void set_learning_rate(const std::string& token, double rate, Time deadline) override {
    forward(ServiceMethod::kSetLearningRate, deadline,
            [&](ParameterService& to) { to.set_learning_rate(token, rate, deadline); });
  }
  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override {
    return result_of(ServiceMethod::kExchange, deadline,
                     [&](ParameterService& to) { return to.exchange(token, request, deadline); });
  }
  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time deadline) override {
    return result_of(ServiceMethod::kStates, deadline,
                     [&](ParameterService& to) { return to.states(token, names, deadline); });
  }
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override {
    return result_of(ServiceMethod::kBeginStep, deadline,
                     [&](ParameterService& to) { return to.begin_step(token, request, deadline); });
  }

 protected:
  using Call = std::function<void(ParameterService&)>;
  /// Makes `call` once, of the service that serves it, or throws.
  virtual void forward(ServiceMethod method, Time deadline, const Call& call) = 0;

 private:
  template <class Function>
  auto result_of(ServiceMethod method, Time deadline, const Function& function) {
    std::optional<std::invoke_result_t<const Function&, ParameterService&>> result;
    forward(method, deadline, [&](ParameterService& to) { result.emplace(function(to)); });
    return *std::move(result);
  }
};

}  // namespace brigade::ps
