#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/ps/store/parameter.h"

namespace brigade::ps {

/// Tickets of parameters, used one after another. Those that are left are given up in the
/// destructor: later tickets would wait for them forever.
///
/// Thread-safety: one thread.
class ParameterTickets {
 public:
  ParameterTickets() = default;
  ParameterTickets(const ParameterTickets&) = delete;
  ParameterTickets& operator=(const ParameterTickets&) = delete;
  ~ParameterTickets() {
    while (next_ < drawn_.size()) {
      const auto& [parameter, ticket] = drawn_[next_++];
      const concurrency::TicketMutex::Hold hold(parameter->order(), ticket);
    }
  }

  /// `draw` does not throw for that many.
  void reserve(std::size_t count) { drawn_.reserve(count); }
  void draw(Parameter& parameter) { drawn_.emplace_back(&parameter, parameter.order().draw()); }
  std::size_t size() const { return drawn_.size(); }
  /// Calls `function(parameter, ticket)`, which must hold the ticket, with the next one.
  template <class Function>
  auto use(const Function& function) {
    const auto& [parameter, ticket] = drawn_[next_++];
    return function(*parameter, ticket);
  }

 private:
  std::vector<std::pair<Parameter*, std::uint64_t>> drawn_;
  std::size_t next_ = 0;
};

}  // namespace brigade::ps
