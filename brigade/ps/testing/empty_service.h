#pragma once

#include <string>
#include <vector>

#include "brigade/ps/parameter_service.h"

namespace brigade::ps::testing {

/// A service that answers every call but `begin_step` with nothing: a base for tests of that one.
class EmptyService : public ParameterService {
 public:
  Grant join(const JoinRequest&, Time) override { return {}; }
  ServerStatus renew(const std::string&, Time) override { return {}; }
  void leave(const std::string&, Time) override {}
  ServerStatus create(const std::string&, const CreateRequest&, Time) override { return {}; }
  void assign(const std::string&, const std::vector<NamedState>&, std::int64_t, Time) override {}
  void set_ready(const std::string&, Time) override {}
  void set_learning_rate(const std::string&, double, Time) override {}
  ExchangeReply exchange(const std::string&, const ExchangeRequest&, Time) override { return {}; }
  StoredStates states(const std::string&, const std::vector<std::string>&, Time) override {
    return {};
  }
};

}  // namespace brigade::ps::testing
