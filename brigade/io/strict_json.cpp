#include "brigade/io/strict_json.h"

#include <set>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

// "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error ..." without the
// library's own name for it.
std::string_view position_and_reason(std::string_view what) {
  constexpr std::string_view kBegin = "parse error at ";
  const std::size_t begin = what.find(kBegin);
  return begin == std::string_view::npos ? what : what.substr(begin + kBegin.size());
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::size_t deepest,
                                 const std::function<void(const std::string& why)>& fail) {
  std::vector<std::set<std::string>> keys;  // of every object that is open
  std::size_t depth = 0;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (++depth > deepest) fail("it is nested too deeply");
      if (event == Event::object_start) keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      --depth;
      if (event == Event::object_end) keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) fail(base::str_cat("the key '", key, "' occurs twice"));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    fail(base::str_cat("it is not JSON: ", position_and_reason(error.what())));
  }
  throw Error(ErrorCode::kInternal, "parse_strict_json: `fail` must throw.");
}

}  // namespace brigade::io
