// The functions of RendezvousState that members call: the store and barriers.
#include <algorithm>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/rendezvous_state.h"
#include "brigade/rpc/token.h"

namespace brigade::rpc {
namespace {

constexpr std::size_t kLargestKey = 4096;
constexpr std::size_t kLargestValue = std::size_t{16} << 20;

void check_sizes(std::string_view key, std::string_view value) {
  if (key.size() > kLargestKey || value.size() > kLargestValue) {
    throw Error(ErrorCode::kInvalidArgument, "The key store is for small things: keys up to ",
                kLargestKey, " bytes and values up to ", base::human_bytes(kLargestValue), "; got ",
                key.size(), " and ", value.size(), " bytes under '", key.substr(0, 80), "'.");
  }
}

std::string key_text(std::string_view key) {
  return base::str_cat("key '", key, "'");
}

}  // namespace

void RendezvousState::set(const Credential& caller, std::string_view key, std::string_view value) {
  check_sizes(key, value);
  {
    const concurrency::MutexLock lock(mutex_);
    require_member(caller);
    keys_.set(key, value);
    answer(key_waits_.take(key), {.value = std::string(value)});
  }
  outbox_.deliver();
}

std::int64_t RendezvousState::add(const Credential& caller, std::string_view key,
                                  std::int64_t delta) {
  check_sizes(key, "");
  std::int64_t sum = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    require_member(caller);
    sum = keys_.add(key, delta);
    answer(key_waits_.take(key), {.value = base::str_cat(sum)});
  }
  outbox_.deliver();
  return sum;
}

std::int64_t RendezvousState::append(const Credential& caller, std::string_view key,
                                     std::string_view value) {
  check_sizes(key, value);
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    require_member(caller);
    number = keys_.append(key, value);
    answer(key_waits_.take(base::str_cat(key, "/", number)), {.value = std::string(value)});
  }
  outbox_.deliver();
  return number;
}

void RendezvousState::get(const Credential& caller, std::string_view key,
                          std::chrono::milliseconds timeout, Reply reply) {
  {
    const concurrency::MutexLock lock(mutex_);
    PendingCall call = waiting_call(caller.id, key_text(key), timeout, std::move(reply));
    try {
      require_member(caller);
      if (auto value = keys_.find(key)) {
        answer({call}, {.value = std::move(*value)});
      } else {
        if (lost_) throw cluster::lost_error(*lost_, call.what);
        require_other_members(call.what);
        wake_before(call.deadline);
        key_waits_.add(key, std::move(call));
      }
    } catch (const Error& error) {
      answer({call}, {.error = error});
    }
  }
  outbox_.deliver();
}

void RendezvousState::barrier(const Credential& caller, std::string_view name,
                              std::chrono::milliseconds timeout, Reply reply) {
  {
    const concurrency::MutexLock lock(mutex_);
    const PendingCall call =
        waiting_call(caller.id, base::str_cat("barrier '", name, "'"), timeout, std::move(reply));
    try {
      require_member(caller);
      require_all_present(call.what);
      wake_before(call.deadline);
      arrive(call);
    } catch (const Error& error) {
      answer({call}, {.error = error});
    }
  }
  outbox_.deliver();
}

/// Answers the calls of all members once the last one has arrived.
void RendezvousState::arrive(const PendingCall& call) {
  if (passed_barriers_.contains(call.what)) {
    throw Error(ErrorCode::kFailedPrecondition, "All members have passed ", call.what,
                " before; each name can be used once, so add a number to it.");
  }
  const auto here = barrier_waits_.members(call.what);
  if (std::ranges::count(here, call.member) > 0) {
    throw Error(ErrorCode::kFailedPrecondition, "This process waits in ", call.what,
                " already, on another thread.");
  }
  barrier_waits_.add(call.what, call);
  if (here.size() + 1 < static_cast<std::size_t>(world_size_)) return;
  answer(barrier_waits_.take(call.what), {});
  passed_barriers_.insert(call.what);
}

void RendezvousState::time_out_calls(TimePoint now) {
  const auto is_late = [&](const PendingCall& waiting) { return waiting.deadline <= now; };
  fail(key_waits_, is_late, [](const PendingCall& waiting) {
    return Error(ErrorCode::kDeadlineExceeded, "No member has set ", waiting.what, " within ",
                 in_seconds(waiting.timeout), ".");
  });
  fail(barrier_waits_, is_late,
       [before = barrier_waits_, entries = entries_](const PendingCall& waiting) {
         std::vector<std::string> missing;
         const auto arrived = before.members(waiting.what);
         for (const auto& [id, entry] : entries) {
           if (std::ranges::count(arrived, id) == 0)
             missing.push_back(cluster::to_string(entry.member));
         }
         return Error(ErrorCode::kDeadlineExceeded, "Not all members have reached ", waiting.what,
                      " within ", in_seconds(waiting.timeout),
                      "; missing: ", base::listed(missing, ", "), ".");
       });
}

std::int64_t RendezvousState::num_refused_calls() {
  const concurrency::MutexLock lock(mutex_);
  return num_refused_calls_;
}

void RendezvousState::require_member(const Credential& caller) {
  const auto token = tokens_.find(caller.id);
  if (token == tokens_.end() || !is_same_token(token->second, caller.token)) {
    ++num_refused_calls_;
    throw Error(ErrorCode::kPermissionDenied,
                "The call does not have the token of a member: only members of this job may use "
                "its store.");
  }
  const auto it = entries_.find(caller.id);
  if (it == entries_.end()) {
    throw Error(ErrorCode::kAborted,
                "This process's generation has ended; the rendezvous serves generation ",
                generation_, ".");
  }
  if (it->second.presence == Entry::Presence::kLost) throw cluster::lost_error(*lost_, "the call");
  check_state(it->second.presence == Entry::Presence::kPresent,
              "This process has left its membership.");
}

/// Throws if no other member is left that could set a key.
void RendezvousState::require_other_members(std::string_view what) const {
  if (!is_started_ || world_size_ == 1 || num_present() > 1) return;
  throw Error(ErrorCode::kUnavailable, "All other members have left; ", what, " is given up.");
}

void RendezvousState::require_all_present(std::string_view what) const {
  if (lost_) throw cluster::lost_error(*lost_, what);
  for (const auto& [id, entry] : entries_) {
    if (entry.presence == Entry::Presence::kPresent) continue;
    throw Error(ErrorCode::kUnavailable, entry.member, " has left and will not reach ", what, ".");
  }
}

PendingCall RendezvousState::waiting_call(MemberId id, std::string what,
                                          std::chrono::milliseconds timeout, Reply reply) {
  const auto wait = std::clamp(timeout, std::chrono::milliseconds(0), kLongestWait);
  return {id, std::move(what), wait, clock_.now() + wait, std::move(reply)};
}

void RendezvousState::answer(const std::vector<PendingCall>& calls, const CallResult& result) {
  for (const PendingCall& call : calls) {
    outbox_.post([reply = call.reply, result] { reply(result); });
  }
}

void RendezvousState::fail(PendingCalls& calls, const IsOver& is_over, const ErrorFor& error) {
  for (const PendingCall& call : calls.take_if(is_over)) answer({call}, {.error = error(call)});
}

void RendezvousState::fail_waiting(const IsOver& is_over, const ErrorFor& error) {
  fail(key_waits_, is_over, error);
  fail(barrier_waits_, is_over, error);
}

}  // namespace brigade::rpc
