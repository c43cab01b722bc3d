#include "brigade/ps/client/value_exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/ps/client/server_session.h"

namespace brigade::ps {
namespace {

// Slots of a variable with most rules, for the time that a call may take.
constexpr std::uint64_t kCommonSlots = 2;

}  // namespace

ValueExchange::ValueExchange(JobMembership& membership, const WorkerVariables& variables,
                             WorkerSteps& steps)
    : membership_(membership),
      variables_(variables),
      steps_(steps),
      reads_(membership.num_servers()) {}

std::optional<std::int64_t> ValueExchange::read_at(int server) const {
  return reads_.read_at(server, session(server).answered());
}

ServerStates ValueExchange::read_states() {
  // All servers first, so that all are then read at nearly the same time.
  if (steps_.decision()) {
    membership_.for_each_server([this](int server) {
      session(server).exchange({.decision = steps_.decision(), .pull = {}});
    });
  }
  ServerStates states(static_cast<std::size_t>(membership_.num_servers()));
  membership_.for_each_server([&](int server) {
    session(server).await_disk();  // this worker's updates are not to vanish after it has read them
    const std::vector<std::string> names = variables_.placed().names_of_server(server);
    if (server > 0 && names.empty()) return;
    StoredStates part = session(server).call(
        [&](ParameterService& service, const std::string& token, ParameterService::Time deadline) {
          return service.states(token, names, deadline);
        },
        (1 + kCommonSlots) * variables_.value_bytes(variables_.placed().of_server(server)));
    check_count(server, names.size(), part.variables.size());
    states[static_cast<std::size_t>(server)] = std::move(part);
  });
  for (const auto& part : states)
    if (part && part->decision) steps_.learn(*part->decision);
  return states;
}

ParameterClient::States ValueExchange::take(ServerStates read) {
  ParameterClient::States states{.variables = std::vector<NamedState>(variables_.size()),
                                 .step = read.front()->step};
  for (int server = 0; server < membership_.num_servers(); ++server) {
    auto& part = read[static_cast<std::size_t>(server)];
    if (!part) continue;
    if (!part->variables.empty()) record_read(server, part->step);
    for (std::size_t i = 0; i < part->variables.size(); ++i)
      states.variables[variables_.placed().of_server(server)[i]] = std::move(part->variables[i]);
  }
  return states;
}

ParameterClient::Values ValueExchange::exchange(std::vector<std::optional<Push>> pushes,
                                                Pulled pulled) {
  ParameterClient::Values values;
  if (pulled == Pulled::kAllValues) values.values.resize(variables_.size());
  std::vector<ExchangeReply> replies(static_cast<std::size_t>(membership_.num_servers()));
  membership_.for_each_server([&](int server) {
    ExchangeRequest request =
        request_to(server, std::move(pushes[static_cast<std::size_t>(server)]), pulled);
    const std::vector<std::size_t> wanted = wanted_of(server, pulled);
    // A server of which only rows are pulled says its step.
    const bool has_nothing =
        pulled == Pulled::kNothing || variables_.placed().of_server(server).empty();
    if (server > 0 && !request.push && has_nothing) return;
    ExchangeReply reply =
        session(server).exchange(std::move(request), variables_.value_bytes(wanted));
    check_count(server, wanted.size(), reply.values.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      values.values[wanted[i]] = std::move(reply.values[i]);
    replies[static_cast<std::size_t>(server)] = std::move(reply);
  });
  take_moments(replies, pulled, values);
  return values;
}

void ValueExchange::begin_early(std::vector<Push> announced, Pulled pulled) {
  for (int server = 0; server < membership_.num_servers(); ++server) {
    Push& push = announced[static_cast<std::size_t>(server)];
    if (push.gradients.empty()) continue;
    session(server).begin_early(request_to(server, std::move(push), pulled),
                                variables_.value_bytes(wanted_of(server, pulled)));
  }
}

ExchangeRequest ValueExchange::request_to(int server, std::optional<Push> push,
                                          Pulled pulled) const {
  ExchangeRequest request{.push = std::move(push), .decision = steps_.decision(), .pull = {}};
  for (const std::size_t i : wanted_of(server, pulled)) request.pull.push_back(variables_[i].name);
  return request;
}

std::vector<std::size_t> ValueExchange::wanted_of(int server, Pulled pulled) const {
  return pulled == Pulled::kAllValues ? variables_.wholes_of(server) : std::vector<std::size_t>();
}

/// When the values of the replies were read, and how stale the pushes were.
void ValueExchange::take_moments(const std::vector<ExchangeReply>& replies, Pulled pulled,
                                 ParameterClient::Values& values) {
  values.step = values.oldest_step = values.newest_step = replies.front().step;
  bool is_first = true;
  for (int server = 0; server < membership_.num_servers(); ++server) {
    if (variables_.placed().of_server(server).empty()) continue;
    const ExchangeReply& reply = replies[static_cast<std::size_t>(server)];
    if (reply.staleness) values.staleness = std::max(values.staleness, reply.staleness);
    if (pulled == Pulled::kNothing) continue;
    record_read(server, reply.step);
    values.oldest_step = is_first ? reply.step : std::min(values.oldest_step, reply.step);
    values.newest_step = is_first ? reply.step : std::max(values.newest_step, reply.step);
    is_first = false;
  }
}

void ValueExchange::record_read(int server, std::int64_t step) {
  reads_.record(server, step, session(server).answered());
}

void ValueExchange::check_count(int server, std::size_t expected, std::size_t got) const {
  if (expected == got) return;
  throw Error(ErrorCode::kInternal, "The ", session(server).name(), " sent ", got,
              " variables, and was asked for ", expected, ".");
}

std::vector<at::Tensor> ValueExchange::pull_rows(std::span<const at::Tensor> indices) {
  check_argument(indices.size() == variables_.size(), "Rows of ", indices.size(),
                 " variables are pulled, and the job has ", variables_.size(),
                 " variables: pass indices for each, undefined for none.");
  std::vector<at::Tensor> rows(indices.size());
  membership_.for_each_server([&](int server) {
    ExchangeRequest request{.decision = steps_.decision(), .pull = {}};
    std::vector<std::size_t> wanted;
    std::uint64_t bytes = 0;
    for (const std::size_t i : variables_.placed().of_server(server)) {
      if (!indices[i].defined()) continue;
      wanted.push_back(i);
      request.pull_rows.push_back({.name = variables_[i].name, .indices = indices[i].contiguous()});
      bytes += variables_.value_bytes_of_rows(i, indices[i].numel());
    }
    if (wanted.empty()) return;
    ExchangeReply reply = session(server).exchange(std::move(request), bytes);
    check_count(server, wanted.size(), reply.rows.size());
    if (variables_.wholes_of(server).empty())
      reads_.record_rows(server, reply.step, session(server).answered());
    for (std::size_t i = 0; i < wanted.size(); ++i) rows[wanted[i]] = std::move(reply.rows[i]);
  });
  return rows;
}

}  // namespace brigade::ps
