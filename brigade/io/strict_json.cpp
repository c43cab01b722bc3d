#include "brigade/io/strict_json.h"

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
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

/// Checks the text without building values. `nlohmann::json::parse` with a callback would also
/// work, but takes quadratic time in the size of an object.
class Watch final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Watch(std::size_t deepest, const std::function<void(const std::string& why)>& fail)
      : deepest_(deepest), fail_(fail) {}

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return deeper();
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& key) override {
    if (!keys_.back().insert(key).second)
      fail_(base::str_cat("the key ", base::quoted(key), " occurs twice"));
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    fail_(base::str_cat("it is not JSON: ", base::shortened(position_and_reason(error.what()))));
    return false;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }

 private:
  bool deeper() {
    if (++depth_ > deepest_) fail_("it is nested too deeply");
    return true;
  }
  std::size_t deepest_;
  const std::function<void(const std::string& why)>& fail_;
  std::size_t depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of every object that is open
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::size_t deepest,
                                 const std::function<void(const std::string& why)>& fail) {
  if (const auto why = not_json(text)) fail(base::str_cat("it is not JSON: ", *why));
  Watch watch(deepest, fail);
  if (nlohmann::json::sax_parse(text, &watch)) return nlohmann::json::parse(text);
  throw Error(ErrorCode::kInternal, "parse_strict_json: `fail` must throw.");
}

std::optional<std::string> not_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) return "it begins with a byte-order mark; write it without";
  const std::size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return std::nullopt;
  return base::str_cat("byte ", nul, " is NUL");
}

}  // namespace brigade::io
