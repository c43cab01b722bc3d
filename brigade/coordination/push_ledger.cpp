#include "brigade/coordination/push_ledger.h"

#include <charconv>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::coordination {
namespace {

std::string text_of(const PushId& push) {
  return base::str_cat("push ", push.number, " of worker ", push.worker, " (incarnation ",
                       push.incarnation, ")");
}

int worker_of(const std::string& key) {
  int worker = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), worker);
  check_argument(error == std::errc() && end == key.data() + key.size() && worker >= 0,
                 "A ledger of pushes has the key '", key,
                 "': keys are the workers' indices, from 0.");
  return worker;
}

}  // namespace

PushVerdict PushLedger::judge(const PushId& push) const {
  check_argument(push.worker >= 0 && push.incarnation >= 0 && push.number >= 1, "No worker sends ",
                 text_of(push), ": workers and incarnations count from 0, pushes from 1.");
  const auto known = workers_.find(push.worker);
  const Entry last = known == workers_.end() ? Entry{push.incarnation, 0} : known->second;
  if (push.incarnation < last.incarnation) return PushVerdict::kFenced;
  const std::int64_t applied = push.incarnation == last.incarnation ? last.number : 0;
  if (push.number <= applied) return PushVerdict::kDuplicate;
  return push.number == applied + 1 ? PushVerdict::kApply : PushVerdict::kGap;
}

void PushLedger::record(const PushId& push) {
  check_state(judge(push) == PushVerdict::kApply, "The server applied ", text_of(push),
              ", which is not the next one.");
  workers_[push.worker] = {push.incarnation, push.number};
}

void PushLedger::admit(int worker, std::int64_t incarnation) {
  check_argument(worker >= 0 && incarnation >= 0, "Worker ", worker, " (incarnation ", incarnation,
                 ") cannot be admitted: both count from 0.");
  const auto [entry, is_new] = workers_.try_emplace(worker, Entry{incarnation, 0});
  if (!is_new && incarnation > entry->second.incarnation) entry->second = {incarnation, 0};
}

std::int64_t PushLedger::incarnation(int worker) const {
  const auto known = workers_.find(worker);
  return known == workers_.end() ? 0 : known->second.incarnation;
}

std::int64_t PushLedger::last_applied(int worker) const {
  const auto known = workers_.find(worker);
  return known == workers_.end() ? 0 : known->second.number;
}

io::StateTree PushLedger::save() const {
  io::StateTree state = io::StateTree::dict();
  for (const auto& [worker, entry] : workers_) {
    io::StateTree& saved = state[std::to_string(worker)];
    saved["incarnation"] = entry.incarnation;
    saved["number"] = entry.number;
  }
  return state;
}

void PushLedger::restore(const io::StateTree& state) {
  std::map<int, Entry> workers;
  for (const auto& [key, saved] : state.as_dict()) {
    const Entry entry{saved.as_int64("incarnation"), saved.as_int64("number")};
    check_argument(entry.incarnation >= 0 && entry.number >= 0,
                   "A ledger of pushes has incarnation ", entry.incarnation, " and number ",
                   entry.number, " for worker ", key, ": neither can be negative.");
    workers[worker_of(key)] = entry;
  }
  workers_ = std::move(workers);
}

}  // namespace brigade::coordination
