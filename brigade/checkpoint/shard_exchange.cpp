#include "brigade/checkpoint/shard_exchange.h"

#include <nlohmann/json.hpp>

#include "brigade/base/printable.h"
#include "brigade/io/strict_json.h"

namespace brigade::checkpoint {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Announcement, save, folder, digest, left_out, has_ended)

namespace {

using Json = nlohmann::json;

// Reasons may hold file names, which need not be UTF-8.
std::string message_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Message, class Fill>
Message parsed(std::string_view text, const Fill& fill) {
  constexpr std::size_t kDeepestMessage = 32;
  const auto fail = [](const std::string& why) {
    throw Error(ErrorCode::kDataLoss,
                "A message of another checkpoint writer cannot be parsed: ", base::shortened(why));
  };
  Message message;
  if (text.empty()) return message;
  try {
    fill(io::parse_strict_json(text, kDeepestMessage, fail), message);
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
  return message;
}

}  // namespace

std::string Announcement::text() const {
  return message_text(*this);
}

Announcement Announcement::parse(std::string_view text) {
  return parsed<Announcement>(
      text, [](const Json& json, Announcement& message) { json.get_to(message); });
}

std::string ShardReport::text() const {
  Json written = Json::array();
  for (const ManifestFile& each : files) {
    written.push_back(
        {{"name", each.name}, {"bytes", each.seal.bytes}, {"crc32c", each.seal.crc32c}});
  }
  return message_text({{"save", save},
                       {"outcome", static_cast<int>(result)},
                       {"files", written},
                       {"code", static_cast<int>(code)},
                       {"reason", reason},
                       {"has_ended", has_ended}});
}

ShardReport ShardReport::parse(std::string_view text) {
  return parsed<ShardReport>(text, [](const Json& json, ShardReport& message) {
    json.at("save").get_to(message.save);
    message.result = static_cast<Result>(json.at("outcome").get<int>());
    for (const Json& each : json.at("files")) {
      message.files.push_back({each.at("name").get<std::string>(),
                               {.bytes = each.at("bytes").get<std::uint64_t>(),
                                .crc32c = each.at("crc32c").get<std::uint32_t>()}});
    }
    message.code = static_cast<ErrorCode>(json.at("code").get<int>());
    json.at("reason").get_to(message.reason);
    json.at("has_ended").get_to(message.has_ended);
  });
}

}  // namespace brigade::checkpoint
