#include "brigade/distribute/gradient_audit.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/io/sha256.h"
#include "brigade/variables/variable_watch.h"

namespace brigade::distribute {

namespace {

constexpr std::size_t kDigits = 32;  // 128 bits

std::string digest_of(const at::Tensor& gradient) {
  if (!gradient.defined()) return "none";
  const at::Tensor dense =
      (gradient.layout() == at::kStrided ? gradient : gradient.to_dense()).detach().contiguous();
  io::Sha256 hash;
  hash.update(std::span(static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()));
  return hash.hex_digest().substr(0, kDigits);
}

void add_digests(comm::Facts& digests, std::span<const variables::Variable> variables,
                 std::span<const at::Tensor> gradients) {
  for (std::size_t i = 0; i < variables.size(); ++i)
    digests.push_back({variables[i].name(), digest_of(gradients[i])});
}

/// Leaves the function that is computed again, whose gradients are known now. No std::exception: a
/// handler of errors in the function does not keep it.
struct GradientsKnown {};

std::string name_of(const cluster::Member& member) {
  return base::str_cat(cluster::to_string(member.task), " on host ", member.host);
}

std::string text_of(std::uint64_t step, const AuditAssignment& audit, std::string_view variable,
                    const cluster::Membership& membership) {
  const auto& members = membership.members();
  return base::str_cat(
      "The audit of step ", step, " found different gradients of logical replica ", audit.replica,
      ": ", name_of(members[static_cast<std::size_t>(audit.owner)]), " computed them, and ",
      name_of(members[static_cast<std::size_t>(audit.auditor)]),
      " got other bits from the same input (first in variable '", variable,
      "'). One of the two computes wrong, and two cannot tell which: run memory and processor "
      "tests on both hosts, and resume without them from a checkpoint that you trust. The step "
      "was not applied.");
}

}  // namespace

std::optional<AuditAssignment> audit_of_step(std::uint64_t step, int every,
                                             const std::vector<int>& replicas) {
  const auto interval = static_cast<std::uint64_t>(every);
  if (every <= 0 || (step + 1) % interval != 0) return std::nullopt;
  const std::uint64_t number = (step + 1) / interval - 1;
  std::uint64_t all = 0;
  for (const int each : replicas) all += static_cast<std::uint64_t>(each);
  const std::uint64_t round = number / all;
  const std::uint64_t others = replicas.size() - 1;
  AuditAssignment audit{.replica = static_cast<int>(number % all)};
  for (int first = 0; audit.replica >= first + replicas[static_cast<std::size_t>(audit.owner)];)
    first += replicas[static_cast<std::size_t>(audit.owner++)];
  const std::uint64_t auditor =
      (static_cast<std::uint64_t>(audit.owner) + 1 + round % others) % replicas.size();
  audit.auditor = static_cast<int>(auditor);
  const std::uint64_t host = round / others + static_cast<std::uint64_t>(audit.replica);
  audit.host = static_cast<int>(host % static_cast<std::uint64_t>(replicas[auditor]));
  return audit;
}

GradientMismatch::GradientMismatch(std::uint64_t step, const AuditAssignment& audit,
                                   std::string variable, const std::string& message)
    : Error(ErrorCode::kDataLoss, message),
      step_(step),
      audit_(audit),
      variable_(std::move(variable)) {}

/// Passes every call on, and notes the first of a step.
class GradientAudit::Watched final : public comm::Communicator {
 public:
  explicit Watched(comm::Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }

  void forget() { first_call_ = {}; }
  /// Empty: there was none.
  std::string_view first_call() const { return first_call_; }

 private:
  std::vector<at::Tensor> execute(const comm::CollectiveCall& call) override {
    if (first_call_.empty()) first_call_ = call.name();
    return inner_.run(call);
  }

  comm::Communicator& inner_;
  std::string_view first_call_;
};

/// A replica's own computation.
class GradientAudit::OwnPass final : public AuditedPass {
 public:
  OwnPass(GradientAudit& audit, int replica) : audit_(audit), replica_(replica) {}

  void begin_step(bool is_audited) {
    is_audited_ = is_audited;
    is_complete_ = false;
    is_compared_ = false;
  }

  bool delays_reduction() const override { return audit_.is_due() && !is_compared_; }
  void record(std::span<const variables::Variable> variables,
              std::span<const at::Tensor> gradients) override {
    if (is_audited_ && !is_complete_) add_digests(audit_.digests_, variables, gradients);
  }
  void before_update() override {
    if (!std::exchange(is_complete_, true)) audit_.check_can_repeat(replica_);
  }
  void compare() override {
    if (!std::exchange(is_compared_, true)) audit_.compare(replica_);
  }

 private:
  GradientAudit& audit_;
  const int replica_;
  bool is_audited_ = false;   // in this step, by another worker
  bool is_complete_ = false;  // no more gradients of this step count
  bool is_compared_ = false;
};

/// The auditor's computation of another worker's replica.
class GradientAudit::SecondPass final : public AuditedPass {
 public:
  explicit SecondPass(comm::Facts& digests) : digests_(digests) {}

  bool delays_reduction() const override { return true; }
  void record(std::span<const variables::Variable> variables,
              std::span<const at::Tensor> gradients) override {
    add_digests(digests_, variables, gradients);
  }
  void before_update() override { throw GradientsKnown(); }
  void compare() override {}

 private:
  comm::Facts& digests_;
};

GradientAudit::GradientAudit(std::shared_ptr<const WorkerGroup> workers,
                             std::shared_ptr<comm::LocalGroup> group,
                             const std::vector<std::unique_ptr<comm::Communicator>>& communicators,
                             int every)
    : workers_(std::move(workers)), group_(std::move(group)), every_(every) {
  for (const auto& communicator : communicators) {
    watched_.push_back(std::make_unique<Watched>(*communicator));
    passes_.push_back(std::make_unique<OwnPass>(*this, static_cast<int>(passes_.size())));
  }
}

GradientAudit::~GradientAudit() = default;

void GradientAudit::begin_step(std::uint64_t step, const variables::VariableStore& store,
                               Again again) {
  step_ = step;
  audit_ = audit_of_step(step, every_, workers_->layout.replicas);
  again_ = std::move(again);
  statistics_.clear();
  values_.clear();
  digests_.clear();
  mismatch_.reset();
  const bool is_owner = audit_ && audit_->owner == workers_->index();
  const int audited = audit_ ? audit_->replica - workers_->layout.first_replica() : 0;
  for (std::size_t replica = 0; replica < passes_.size(); ++replica) {
    watched_[replica]->forget();
    passes_[replica]->begin_step(is_owner && static_cast<int>(replica) == audited);
  }
  if (!audit_ || !again_) return;
  statistics_ = store.non_trainable_variables();
  // Frozen parameters are equal in all workers, and replicas share their memory.
  std::erase_if(statistics_, [](const auto& each) { return each.storage() != nullptr; });
  for (const variables::Variable& each : statistics_) {
    const at::Tensor& value = each.component(is_owner ? audited : 0);
    values_.push_back(is_owner ? value.detach().clone() : at::empty_like(value.detach()));
  }
}

AuditedPass& GradientAudit::pass(int replica) {
  return *passes_[static_cast<std::size_t>(replica)];
}

comm::Communicator& GradientAudit::communicator(int replica) {
  return *watched_[static_cast<std::size_t>(replica)];
}

/// In every step, so that a program learns at its first one that it cannot be audited.
void GradientAudit::check_can_repeat(int replica) const {
  const std::string_view call = watched_[static_cast<std::size_t>(replica)]->first_call();
  check_state(call.empty(), "audit_every is ", every_,
              ", and the step function calls the collective ", call,
              " before its first update: a worker cannot compute one replica again alone. Leave "
              "the collective out (synchronized batch normalization has some), or audit_every.");
  check_state(static_cast<bool>(again_), "audit_every is ", every_,
              ", and Strategy::run got a value by replica that another worker cannot make again: "
              "pass batches of Strategy::distribute, or leave out audit_every.");
}

void GradientAudit::compare(int replica) {
  if (!audit_) return;
  const bool is_auditor = audit_->auditor == workers_->index();
  group_->exchange(replica, {.name = "audit: statistics"}, {}, [&] {
    if (replica == 0 && !values_.empty())
      workers_->communicator->broadcast(values_, audit_->owner)->wait();
  });
  if (is_auditor && replica == audit_->host) compute_again();
  group_->exchange(replica, {.name = "audit: gradients"}, {}, [&] {
    if (replica == 0) exchange_digests();
  });
  if (mismatch_) throw GradientMismatch(*mismatch_);
}

/// On the thread of the replica that hosts it, whose variables are afterwards as they were.
void GradientAudit::compute_again() {
  const variables::KeptValues own(statistics_);
  const auto restore = [&] {
    // Unseen by autograd: the replica may still use the graph of its own pass.
    const at::AutoDispatchBelowADInplaceOrView unseen;
    own.restore();
  };
  SecondPass pass(digests_);
  try {
    {
      const at::NoGradGuard no_grad;
      const at::AutoDispatchBelowADInplaceOrView unseen;
      for (std::size_t i = 0; i < values_.size(); ++i) statistics_[i].local().copy_(values_[i]);
    }
    again_(*audit_, pass);
  } catch (const GradientsKnown&) {
    // As it should end.
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

void GradientAudit::exchange_digests() {
  comm::Communicator& all = *workers_->communicator;
  const auto texts = comm::all_gather_texts(all, comm::to_text(digests_));
  const std::array both = {comm::facts_in(texts[static_cast<std::size_t>(audit_->owner)]),
                           comm::facts_in(texts[static_cast<std::size_t>(audit_->auditor)])};
  const auto difference = comm::find_difference(both);
  if (!difference) return;
  mismatch_.emplace(step_, *audit_, difference->name,
                    text_of(step_, *audit_, difference->name, *workers_->membership));
  try {
    all.barrier();  // all know it before the first of them ends
  } catch (const Error&) {
  }
}

}  // namespace brigade::distribute
