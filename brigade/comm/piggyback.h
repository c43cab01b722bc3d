#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace brigade::comm {

/// What a number that travels along is for. Calls carry one number of each use, independently.
enum class PiggybackUse {
  kInput,   ///< what a process has for the next step
  kStop,    ///< whether it wants to stop
  kTimers,  ///< what is due by its clock
};
inline constexpr std::size_t kPiggybackUses = 3;

/// A number of each rank that all ranks learn without a call for it: it travels with the calls that
/// they make anyway (`Communicator::piggyback`). For what is good to know early and can still be
/// asked for: all ranks have the numbers, or none has.
///
/// Thread-safety: its owner uses it between calls.
class PiggybackNumber {
 public:
  /// Returns this rank's number as soon as it is known. Each call asks for it when it begins, on
  /// its thread, so it must neither wait nor throw.
  using Own = std::function<std::optional<std::int64_t>()>;

  explicit PiggybackNumber(Own own) : own_(std::move(own)) {}

  /// The numbers by rank in the latest call in which all ranks knew theirs; null as long as there
  /// was none.
  const std::vector<std::int64_t>* by_rank() const { return by_rank_ ? &*by_rank_ : nullptr; }

 private:
  friend class Piggyback;

  Own own_;
  std::optional<std::vector<std::int64_t>> by_rank_;
};

/// A rank's number in the header of a call.
///
/// Thread-safety: a value.
struct PiggybackStamp {
  std::uint64_t serial = 0;   ///< how many PiggybackNumbers of this use the rank has made
  std::int64_t is_known = 0;  ///< 1: it has the latest still, and knows its value
  std::int64_t value = 0;
};
/// A rank's numbers, by PiggybackUse.
using PiggybackStamps = std::array<PiggybackStamp, kPiggybackUses>;

/// What a communicator carries along: of each use the latest number of its rank, while that exists.
/// For communicators that exchange something of all ranks at the start of each call.
///
/// Thread-safety: one thread at a time.
class Piggyback {
 public:
  /// Carries a new number from now on, instead of the one before of that use.
  std::shared_ptr<PiggybackNumber> carry(PiggybackUse use, PiggybackNumber::Own own);
  /// What this rank sends with a call.
  PiggybackStamps stamps() const;
  /// Takes what all ranks have sent with a call that they make together.
  void receive(std::span<const PiggybackStamps> by_rank);

 private:
  struct Slot {
    std::uint64_t serial = 0;  // of `number`, which other ranks' numbers must have
    std::weak_ptr<PiggybackNumber> number;

    PiggybackStamp stamp() const;
    void receive(std::span<const PiggybackStamp> by_rank);
  };

  std::array<Slot, kPiggybackUses> slots_;
};

}  // namespace brigade::comm
