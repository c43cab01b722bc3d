#include "brigade/io/state_json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json_forms.h"
#include "brigade/io/strict_json.h"

namespace brigade::io {
namespace {

using base::str_cat;
using nlohmann::json;
using namespace state_json;

[[noreturn]] void fail(std::string_view message) {
  throw Error(ErrorCode::kDataLoss, str_cat("state JSON: ", message));
}

/// Builds the tree from the events of nlohmann's parser. (Its own tree would lose the raw numbers,
/// and keep the last of two equal keys.)
class Reader : public nlohmann::json_sax<json> {
 public:
  explicit Reader(std::map<std::string, ArrayLeaf> arrays) : arrays_(std::move(arrays)) {}

  StateTree take_root() { return std::move(root_); }

  bool null() override { return add(StateTree()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (!std::in_range<std::int64_t>(value)) {
      fail(str_cat(where(), ": ", value, " is too large for int64; uint64 is written \"",
                   kUint64Tag, value, "\""));
    }
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& digits) override {
    // The parser converts integers that are too large to rounded doubles.
    if (digits.find_first_of(".eE") == std::string::npos) {
      fail(str_cat(where(), ": integer ", base::shortened(digits),
                   " fits neither int64 nor uint64"));
    }
    return add(value);
  }
  bool string(std::string& value) override {
    if (!value.starts_with('$')) return add(std::move(value));
    return add(tagged(value));
  }
  bool binary(json::binary_t&) override { fail("binary values do not exist in JSON"); }
  bool start_object(std::size_t) override { return open(StateTree::dict()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(StateTree::list()); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (open_.back().tree.has(value))
      fail(str_cat(where(), ": the key \"", base::shortened(value), "\" appears twice"));
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(str_cat("cannot be read at byte ", position, ": ", base::shortened(error.what())));
  }

 private:
  struct Open {
    StateTree tree;
    std::string key;  // of the next value, in a dict
  };

  std::string where() const {
    std::string path = "state";
    for (const Open& level : open_) {
      path += level.tree.kind() == StateKind::kDict
                  ? str_cat("[\"", base::shortened(level.key), "\"]")
                  : str_cat("[", level.tree.size(), "]");
    }
    return path;
  }

  bool open(StateTree tree) {
    if (open_.size() >= kMaxStateDepth)
      fail(str_cat("nested deeper than ", kMaxStateDepth, " levels"));
    open_.push_back({std::move(tree), {}});
    return true;
  }

  bool close() {
    StateTree finished = std::move(open_.back().tree);
    open_.pop_back();
    return add(std::move(finished));
  }

  bool add(StateTree value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().tree.kind() == StateKind::kList) {
      open_.back().tree.push_back(std::move(value));
    } else {
      open_.back().tree[open_.back().key] = std::move(value);
    }
    return true;
  }

  StateTree tagged(std::string_view value) {
    if (value.starts_with(kTextTag)) return value.substr(1);
    if (value.starts_with(kUint64Tag)) return integer<std::uint64_t>(value, kUint64Tag);
    if (value.starts_with(kInt64Tag)) return integer<std::int64_t>(value, kInt64Tag);
    if (value.starts_with(kDoubleTag)) return non_finite(value.substr(kDoubleTag.size()));
    if (value.starts_with(kBytesTag)) return bytes(value.substr(kBytesTag.size()));
    if (value.starts_with(kArrayTag)) return take_array(value.substr(kArrayTag.size()));
    fail(str_cat(where(), ": \"", value.substr(0, 40), "\" begins with '$' but is no known form"));
  }

  template <class T>
  StateTree integer(std::string_view value, std::string_view tag) const {
    const std::string_view digits = value.substr(tag.size());
    T number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail(str_cat(where(), ": \"", value.substr(0, 60), "\" does not hold a number of that type"));
    }
    return number;
  }

  StateTree non_finite(std::string_view value) const {
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    if (value == "nan") return std::bit_cast<double>(kPlainNan);
    constexpr std::string_view kBits = "nan:";
    if (value.starts_with(kBits)) {
      const std::string_view digits = value.substr(kBits.size());
      std::uint64_t bits = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
      const auto number = std::bit_cast<double>(bits);
      if (error == std::errc() && end == digits.data() + digits.size() && std::isnan(number))
        return number;
    }
    fail(str_cat(where(), ": \"", kDoubleTag, value.substr(0, 40),
                 "\" is neither inf, -inf nor nan"));
  }

  StateTree bytes(std::string_view name) {
    ArrayLeaf array = take_array(name);
    if (array.dtype != "U8" || array.shape.size() != 1) {
      fail(str_cat(where(), ": bytes need an array of U8 with one dimension; \"",
                   base::shortened(name), "\" is none"));
    }
    return std::move(array.bytes);
  }

  ArrayLeaf take_array(std::string_view name) {
    const auto found = arrays_.find(std::string(name));
    if (found == arrays_.end()) {
      fail(str_cat(where(), ": refers to the array \"", base::shortened(name),
                   "\", which is missing or used twice"));
    }
    ArrayLeaf array = std::move(found->second);
    arrays_.erase(found);
    try {
      check_array(array, name);
    } catch (const Error& error) {
      fail(str_cat(where(), ": ", error.what()));
    }
    return array;
  }

  std::map<std::string, ArrayLeaf> arrays_;
  std::vector<Open> open_;
  StateTree root_;
};

}  // namespace

StateTree from_json(std::string_view text, std::map<std::string, ArrayLeaf> arrays) {
  if (const auto why = not_json(text)) fail(*why);
  Reader reader(std::move(arrays));
  json::sax_parse(text, &reader);
  return reader.take_root();
}

}  // namespace brigade::io
