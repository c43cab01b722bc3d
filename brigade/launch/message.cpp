#include "brigade/launch/message.h"

#include <nlohmann/json.hpp>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/io/strict_json.h"

namespace brigade::launch {

using Json = nlohmann::json;

// nlohmann-json finds these by argument-dependent lookup.
void to_json(Json& json, const ExitStatus& status) {
  json = {{"code", status.code.value_or(-1)}, {"signal", status.signal.value_or(-1)}};
}
void from_json(const Json& json, ExitStatus& status) {
  const int code = json.at("code"), signal = json.at("signal");
  status = {};
  if (code >= 0) status.code = code;
  if (signal >= 0) status.signal = signal;
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankEnded, generation, rank, status, is_orderly, was_asked)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankLost, generation, rank, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SignalReceived, host, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFinished, host, generation, all_done, code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFailed, host, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobSummary, restarts, membership_changes, reports_failure, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StartOrder, generation, processes, rendezvous, master, cluster,
                                   summary)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RestartOrder, generation, rank, is_failure, restarts,
                                   membership_changes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReleaseOrder, generation, rank, kind)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DismissOrder, generation, ranks, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AllJoinedOrder, generation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NameFailureOrder, generation, rank, status, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StopOrder, generation, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FinishOrder, exit_code, summary)

namespace {

template <std::size_t Kind = 0>
Message decode_as(std::size_t kind, const Json& body) {
  if constexpr (Kind < std::variant_size_v<Message>) {
    if (kind == Kind) return body.get<std::variant_alternative_t<Kind, Message>>();
    return decode_as<Kind + 1>(kind, body);
  } else {
    throw Error(ErrorCode::kDataLoss, "no message has kind ", kind);
  }
}

}  // namespace

std::string encode(const Message& message) {
  return std::visit(
      [&](const auto& body) {
        // The text may quote a program's output, which need not be UTF-8.
        return Json{{"kind", message.index()}, {"body", body}}.dump(-1, ' ', false,
                                                                    Json::error_handler_t::replace);
      },
      message);
}

Message decode(std::string_view text) {
  try {
    constexpr std::size_t kDeepest = 32;
    const Json json = io::parse_strict_json(
        text, kDeepest, [](const std::string& why) { throw Error(ErrorCode::kDataLoss, why); });
    return decode_as(json.at("kind").get<std::size_t>(), json.at("body"));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kDataLoss, "A launcher's message cannot be read (",
                base::shortened(error.what()), "): run the same build of Brigade on all hosts.");
  }
}

}  // namespace brigade::launch
