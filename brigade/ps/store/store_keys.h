#pragma once

#include <string_view>

/// The names in a server's log and snapshots (docs/formats.md, "Updates").
namespace brigade::ps::keys {

inline constexpr std::string_view kKind = "kind";
// Kinds of records.
inline constexpr std::string_view kVariables = "variables";
inline constexpr std::string_view kCreate = "create";
inline constexpr std::string_view kAssign = "assign";
inline constexpr std::string_view kReady = "ready";
inline constexpr std::string_view kLearningRate = "learning_rate";
inline constexpr std::string_view kAdmit = "admit";
inline constexpr std::string_view kFinish = "finish";
inline constexpr std::string_view kPush = "push";
inline constexpr std::string_view kOffer = "offer";
// With gradients of rows. Separate kinds, so that an earlier version refuses them.
inline constexpr std::string_view kPushRows = "push_rows";
inline constexpr std::string_view kOfferRows = "offer_rows";
inline constexpr std::string_view kDecision = "decision";
// Fields.
inline constexpr std::string_view kRule = "rule";
inline constexpr std::string_view kJob = "job";
inline constexpr std::string_view kPart = "part";
inline constexpr std::string_view kParts = "parts";
inline constexpr std::string_view kTrainable = "trainable";
inline constexpr std::string_view kLearningRates = "learning_rates";
inline constexpr std::string_view kWeightDecay = "weight_decay";
inline constexpr std::string_view kWeightDecays = "weight_decays";
inline constexpr std::string_view kName = "name";
inline constexpr std::string_view kSlots = "slots";
inline constexpr std::string_view kUpdates = "updates";
inline constexpr std::string_view kWorker = "worker";
inline constexpr std::string_view kIncarnation = "incarnation";
inline constexpr std::string_view kNumber = "number";
inline constexpr std::string_view kRateDivisor = "rate_divisor";
inline constexpr std::string_view kStep = "step";
inline constexpr std::string_view kIndex = "index";
inline constexpr std::string_view kLedger = "ledger";
inline constexpr std::string_view kFinished = "finished";
inline constexpr std::string_view kOffers = "offers";
inline constexpr std::string_view kRows = "rows";

}  // namespace brigade::ps::keys
